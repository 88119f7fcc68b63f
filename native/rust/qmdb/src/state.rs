//! Blocks.

use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use statelab_abi::state::{Account, Basis, EMPTY_CODE, Error, Hash, Head, Memory, Options, Result, Slot, Stat, State, Unsettled};

use crate::HEAP;
use crate::database::{self, Database, QmdbError};
use crate::keys::{self, Key, Record};
use crate::lookup::Lookup;
use crate::place::Place;
use crate::plan::Plan;
use crate::runtime::Runtime;

/// An open state.
pub struct Opened {
    shared: Arc<Shared>,
    plan: Plan,
    page_cache_bytes: u64,
    head: Mutex<Head>,
    /// The changes of the block being built.
    block: Mutex<Vec<(Key, Option<Record>)>>,
    place: Place,
}

/// What lookups and blocks share.
pub struct Shared {
    /// Missing during a commit, and for good after one that failed. Before the runtime: it is
    /// dropped first.
    database: RwLock<Option<Database>>,
    runtime: Runtime,
}

impl Opened {
    pub(crate) fn open(options: &Options, place: Place) -> Result<Self> {
        let plan = Plan::of(options, database::operations_in(&place.folder)?);
        let runtime = Runtime::start(&place.folder)?;
        let (mut opened, page_cache_bytes) = database::open(&runtime, &place, &plan)?;
        if options.create {
            let doing = Error::doing("make the state");
            let empty = database::prepare(&runtime, &opened, 0, Vec::new()).map_err(&doing)?;
            opened = database::commit(&runtime, opened, empty, &place).map_err(doing)?;
        }
        // A folder without its log is to QMDB a database that has not begun.
        let nothing = || Error::NotADatabase(format!("open {}: no block was ever committed", place.folder.display()));
        let number = runtime.wait(opened.get_metadata()).map_err(Error::doing("read the number of the newest block"))?;
        let block = number.as_ref().and_then(keys::as_block).ok_or_else(nothing)?;
        let head = Mutex::new(Head { block, root: database::root(&opened) });
        let shared = Arc::new(Shared { database: RwLock::new(Some(opened)), runtime });
        HEAP.give_back(); // what the replay took
        Ok(Opened { shared, plan, page_cache_bytes, head, block: Mutex::default(), place })
    }
}

impl State for Opened {
    type Reader = Lookup;

    fn head(&self) -> Head {
        *self.head.lock().expect("nothing that holds the head can panic")
    }

    fn change(&self, name: &Hash, account: Option<&Account>, slots: &[Slot]) -> Result<()> {
        let Some(account) = account else { return self.delete(name, slots) };
        let mut block = self.block.lock().map_err(|_| broken())?;
        block.push((keys::account_key(name), Some(keys::of_account(account))));
        block.extend(slots.iter().map(|slot| {
            let record = (!slot.value.as_bytes().is_empty()).then(|| keys::of_slot(&slot.value));
            (keys::slot_key(name, &slot.key), record)
        }));
        Ok(())
    }

    fn commit(&self) -> Result<Hash> {
        let changes = std::mem::take(&mut *self.block.lock().map_err(|_| broken())?);
        let number = self.head().block + 1;
        let doing = format!("commit block {number}");
        let batch = self.shared.look_up(|runtime, database| database::prepare(runtime, database, number, changes).map_err(Error::doing(&doing)))?;
        let root = self.shared.publish(&doing, |runtime, database| database::commit(runtime, database, batch, &self.place))?;
        *self.head.lock().expect("nothing that holds the head can panic") = Head { block: number, root };
        Ok(root)
    }

    fn reader(&self) -> Result<Lookup> {
        Ok(Lookup::new(self.shared.clone(), self.plan.prove))
    }

    /// Nothing runs in the background. A commit leaves the tree's nodes and the note of where the
    /// log was last known to be sound to be made again by the next open: here they are written.
    fn settle(&self, _at_most: Duration) -> Result<Option<Unsettled>> {
        self.shared.publish("settle", |runtime, database| runtime.wait(database.sync()))?;
        Ok(None)
    }

    /// The runtime's own counts of what it was asked for below the page cache: pages of lookups
    /// and of commits.
    fn stats(&self) -> Vec<Stat> {
        let names = ["reads", "read_bytes", "writes", "write_bytes"];
        let theirs = names.map(|name| format!("runtime_storage_{name}_total"));
        let counts = self.shared.runtime.counts(theirs.each_ref().map(String::as_str));
        names.into_iter().zip(counts).filter_map(|(name, count)| Some(Stat { name, value: count? })).collect()
    }

    fn memory(&self) -> Vec<Memory> {
        let rest = HEAP.used_bytes().saturating_sub(self.page_cache_bytes);
        vec![
            Memory { usage: "page cache of the layout", basis: Basis::Limit, bytes: self.page_cache_bytes },
            Memory { usage: "index and the rest of the heap", basis: Basis::Measured, bytes: rest },
        ]
    }

    fn effective(&self) -> Vec<(&'static str, String)> {
        self.plan.effective(self.place.operations_per_file)
    }

    fn close(self) -> Result<()> {
        let shared = Arc::try_unwrap(self.shared).map_err(|_| Error::Failed("close: a reader is still open".into()))?;
        let database = shared.database.into_inner().map_err(|_| broken())?;
        // A state that a commit broke has nothing to be kept.
        let synced = database.map_or(Ok(()), |database| shared.runtime.wait(database.sync()).map(drop).map_err(Error::doing("close")));
        let stopped = shared.runtime.stop();
        HEAP.give_back();
        synced.and(stopped)
    }
}

impl Opened {
    /// QMDB has no list of an account's slots, so nobody could delete them. An account without
    /// code has none; one with code cannot go. The main network deletes no account with storage
    /// since Cancun, but for one that was made in the same block.
    fn delete(&self, name: &Hash, slots: &[Slot]) -> Result<()> {
        let refused = |why| Err(Error::Failed(format!("delete account {}: {why}", keys::account_key(name))));
        if !slots.is_empty() {
            return refused("it comes with slots");
        }
        let key = keys::account_key(name);
        let record = self.shared.look_up(|runtime, database| runtime.wait(database.get(&key)).map_err(Error::doing("read the account to delete")))?;
        let Some(record) = record else { return Ok(()) };
        if keys::as_account(&record).is_none_or(|account| account.code != EMPTY_CODE) {
            return refused("it has code, so it may have slots, and QMDB keeps no list of them");
        }
        self.block.lock().map_err(|_| broken())?.push((key, None));
        Ok(())
    }
}

impl Shared {
    /// Runs a lookup, beside others but not beside a commit.
    pub fn look_up<T>(&self, f: impl FnOnce(&Runtime, &Database) -> Result<T>) -> Result<T> {
        let database = self.database.read().map_err(|_| broken())?;
        f(&self.runtime, database.as_ref().ok_or_else(broken)?)
    }

    /// Changes the database, while no lookup is under way, and returns its root.
    fn publish(&self, doing: &str, f: impl FnOnce(&Runtime, Database) -> Result<Database, QmdbError>) -> Result<Hash> {
        let mut place = self.database.write().map_err(|_| broken())?;
        let database = f(&self.runtime, place.take().ok_or_else(broken)?).map_err(Error::doing(doing))?;
        let root = database::root(&database);
        *place = Some(database);
        Ok(root)
    }
}

fn broken() -> Error {
    Error::Failed("an earlier commit failed: close the state and open it again".into())
}
