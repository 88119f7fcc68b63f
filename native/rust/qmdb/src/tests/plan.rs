use super::*;

fn options(memory_bytes: Option<u64>, accounts: u64) -> Options {
    Options {
        directory: "/nowhere".into(),
        profile: VALUE.into(),
        create: true,
        read_only: false,
        memory_bytes,
        accounts_hint: Some(accounts).filter(|&count| count > 0),
        slots_hint: None,
        settings: Settings::default(),
    }
}

#[test]
fn an_index_is_a_table_of_a_power_of_two() {
    assert_eq!(index_bytes(0), 17);
    assert_eq!(index_bytes(7), 16 * 17);
    assert_eq!(index_bytes(1_000_000), (1 << 21) * 17);
    assert_eq!(index_bytes(u64::MAX / 2), u64::MAX);
}

#[test]
fn the_page_cache_gets_what_the_index_leaves() {
    let held = Plan::of(&options(Some(64 * MIB), 1_000_000), 0);
    assert_eq!(held.budget, Budget::Held);
    assert_eq!(held.page_cache_pages.get() as u64, (64 * MIB - (2 << 20) * 17 - 2 * MIB) / CACHED_PAGE_BYTES);
    let exceeded = Plan::of(&options(Some(32 * MIB), 1_000_000), 0);
    assert_eq!((exceeded.budget, exceeded.page_cache_pages.get() as u64), (Budget::Exceeded, MIB / CACHED_PAGE_BYTES));
    assert_eq!(Plan::of(&options(None, 0), 0).budget, Budget::None);
    let unknown = Plan::of(&options(Some(64 * MIB), 0), 1_000_000);
    assert_eq!(unknown.page_cache_pages, held.page_cache_pages, "without a hint the log says how much there is");
}

#[test]
fn mistakes_come_with_a_legal_example() {
    let mut wrong = options(Some(MIB), 0);
    wrong.settings = Settings::new(vec![("speed".into(), "1".into()), (HASH_THREADS.into(), "0".into()), (OPERATIONS_PER_FILE.into(), "9".into())]);
    assert_eq!(
        Plan::check(&wrong),
        [
            "unknown option \"speed\": there are hash_threads, operations_per_file",
            "option hash_threads=\"0\": want a whole number from 1 to 256, as in --set hash_threads=1",
            "a memory of 1048576 bytes is too small for the write buffers and the least page cache, as in --memory 3MiB",
        ]
    );
    assert!(Plan::check(&options(Some(3 * MIB), u64::MAX)).is_empty(), "the index has no limit");
}
