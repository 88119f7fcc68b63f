//! Blocks.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::{B256, U256};
use alloy_trie::EMPTY_ROOT_HASH;
use statelab_abi::state::{Account, Basis, Error, Hash, Head, Memory, Options, Result, Slot, Stat, State, Unsettled};
use triedb::Database;
use triedb::path::{AddressPath, StoragePath};
use triedb::transaction::{RO, Transaction};

use crate::lookup::{Lookup, address, slot};
use crate::pages::Pages;
use crate::place::{self, Found, Place};
use crate::{HEAP, THREADS};

const PAGE_BYTES: u64 = 4096;

/// An open state.
pub struct Opened {
    shared: Arc<Shared>,
    head: Mutex<Head>,
    block: Mutex<Block>,
    pages: Pages,
    threads: Option<NonZero<usize>>,
    place: Place,
}

/// What lookups and blocks share.
pub struct Shared {
    database: Arc<Database>,
    /// The newest committed.
    block: AtomicU64,
    /// A read transaction chooses its snapshot first and holds its pages afterwards: no block may
    /// begin in between.
    beginning: Mutex<()>,
}

/// The block being built.
#[derive(Default)]
struct Block {
    accounts: Vec<(AddressPath, Option<triedb::account::Account>)>,
    slots: Vec<(StoragePath, Option<U256>)>,
    /// By a commit that failed or panicked: its transaction is still open, and TrieDB has no other.
    broken: bool,
    /// Before the first commit.
    found: Option<Found>,
}

impl Opened {
    pub(crate) fn open(options: &Options) -> Result<Self> {
        let place = place::take(options)?;
        let threads = options.settings.number(THREADS, 1..=256).unwrap_or_default().and_then(|count| NonZero::new(count as usize));
        let found = if options.create { Found::default() } else { place::find(&place)? };
        let pages = Pages::default();
        let mut how = Database::options();
        how.create(options.create);
        if let Some(threads) = threads {
            how.num_threads(threads);
        }
        let database = metrics::with_local_recorder(&pages, || how.open(&place.pages));
        let database = database.map_err(|why| Error::Failed(format!("open {}: {why:?}", place.pages.display())))?;
        let head = Head { block: found.block, root: root(&database) };
        let shared = Shared { database: Arc::new(database), block: AtomicU64::new(found.block), beginning: Mutex::default() };
        Ok(Opened {
            shared: Arc::new(shared),
            head: Mutex::new(head),
            block: Mutex::new(Block { found: Some(found), ..Block::default() }),
            pages,
            threads,
            place,
        })
    }
}

impl State for Opened {
    type Reader = Lookup;

    fn head(&self) -> Head {
        *self.head.lock().expect("nothing that holds the head can panic")
    }

    fn change(&self, name: &Hash, account: Option<&Account>, slots: &[Slot]) -> Result<()> {
        let mut block = self.block.lock().map_err(|_| broken())?;
        // TrieDB makes the storage root itself.
        let account = account.map(|account| {
            triedb::account::Account::new(account.nonce, U256::from_be_bytes(account.balance), EMPTY_ROOT_HASH, B256::from(account.code))
        });
        block.accounts.push((address(name), account));
        block.slots.extend(slots.iter().map(|change| {
            let value = Some(change.value.as_bytes()).filter(|value| !value.is_empty()).map(U256::from_be_slice);
            (slot(name, &change.key), value)
        }));
        Ok(())
    }

    fn commit(&self) -> Result<Hash> {
        let mut block = self.block.lock().map_err(|_| broken())?;
        if block.broken {
            return Err(broken());
        }
        if let Some(found) = block.found.take() {
            place::release(&self.place, &found)?;
        }
        let Block { accounts, slots, .. } = std::mem::replace(&mut *block, Block { broken: true, ..Block::default() });
        let number = self.head().block + 1;
        let doing = format!("commit block {number}");
        let mut transaction = self.shared.write(&doing)?;
        // TrieDB panics or makes another root where something is deleted that is not there.
        for (path, account) in accounts {
            if account.is_some() || transaction.get_account(&path).map_err(failed(&doing))?.is_some() {
                transaction.set_account(path, account).map_err(failed(&doing))?;
            }
        }
        for (path, value) in slots {
            if value.is_some() || transaction.get_storage_slot(&path).map_err(failed(&doing))?.is_some() {
                transaction.set_storage_slot(path, value).map_err(failed(&doing))?;
            }
        }
        transaction.commit().map_err(failed(&doing))?;
        let root = root(&self.shared.database);
        self.shared.block.store(number, SeqCst);
        *self.head.lock().expect("nothing that holds the head can panic") = Head { block: number, root };
        block.broken = false;
        Ok(root)
    }

    fn reader(&self) -> Result<Lookup> {
        Lookup::new(self.shared.clone())
    }

    /// A commit of TrieDB's returns when all is done.
    fn settle(&self, _at_most: Duration) -> Result<Option<Unsettled>> {
        Ok(None)
    }

    /// Pages that a mapping brings in are the kernel's reads, and TrieDB sees none of them.
    fn stats(&self) -> Vec<Stat> {
        let written = self.pages.written();
        vec![Stat { name: "writes", value: written }, Stat { name: "write_bytes", value: written * PAGE_BYTES }]
    }

    fn memory(&self) -> Vec<Memory> {
        vec![Memory { usage: "heap", basis: Basis::Measured, bytes: HEAP.used_bytes() }]
    }

    fn effective(&self) -> Vec<(&'static str, String)> {
        let threads = self.threads.map_or("one a core".into(), |threads| threads.to_string());
        vec![(THREADS, threads), ("pages", self.shared.database.size().to_string())]
    }

    fn close(self) -> Result<()> {
        let open = || Error::Failed("close: a reader is still open".into());
        let shared = Arc::try_unwrap(self.shared).map_err(|_| open())?;
        let database = Arc::try_unwrap(shared.database).map_err(|_| open())?;
        let closed = database.close().map_err(Error::doing("close"));
        HEAP.give_back();
        closed
    }
}

impl Shared {
    /// The newest committed.
    pub fn block(&self) -> u64 {
        self.block.load(SeqCst)
    }

    /// Begins a transaction of lookups, of the newest block or a newer one than that.
    pub fn begin(&self) -> Result<(u64, Transaction<Arc<Database>, RO>)> {
        let _alone = self.beginning.lock().map_err(|_| broken())?;
        let block = self.block();
        let transaction = triedb::database::begin_ro(self.database.clone()).map_err(failed("begin a lookup's transaction"))?;
        Ok((block, transaction))
    }

    fn write(&self, doing: &str) -> Result<Transaction<&Database, triedb::transaction::RW>> {
        let _alone = self.beginning.lock().map_err(|_| broken())?;
        self.database.begin_rw().map_err(failed(doing))
    }
}

/// TrieDB's root, which is zero before the first block.
fn root(database: &Database) -> Hash {
    let root = database.state_root();
    if root.is_zero() { EMPTY_ROOT_HASH.0 } else { root.0 }
}

/// TrieDB's errors have no words.
pub fn failed<E: std::fmt::Debug>(doing: &str) -> impl Fn(E) -> Error {
    move |why| Error::Failed(format!("{doing}: {why:?}"))
}

/// What is answered after a failed commit.
pub fn broken() -> Error {
    Error::Failed("an earlier commit failed: close the state and open it again".into())
}
