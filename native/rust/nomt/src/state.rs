//! Blocks.

use std::sync::{Arc, Mutex, MutexGuard, RwLock, TryLockError};
use std::time::Duration;

use nomt::hasher::Blake3Hasher;
use nomt::{FinishedSession, KeyReadWrite, Session, SessionParams};
use statelab_abi::state::{Account, EMPTY_CODE, Error, Hash, Head, Memory, Result, Slot, Stat, State, Unsettled, decode_account, encode_account};

use crate::Database;
use crate::error_text::{Meaning, meaning};
use crate::eviction::Eviction;
use crate::input::read_bytes;
use crate::keys::{self, Path};
use crate::lookup::Lookup;
use crate::plan::{PAGE_BYTES, Plan};

/// An open state.
pub struct Opened {
    shared: Arc<Shared>,
    plan: Plan,
    head: Mutex<Head>,
    /// What the process had read before.
    read_bytes_before: u64,
}

/// What lookups and blocks share.
pub struct Shared {
    /// All lookups go through one session, which stands at the newest block. NOMT commits only
    /// when there is none, so it is missing during a commit, and for good after one that
    /// failed. Before the database: it is dropped first.
    session: RwLock<Option<Session<Blake3Hasher>>>,
    /// The changes of the block being built. Who holds it may commit.
    block: Mutex<Vec<(Path, KeyReadWrite)>>,
    eviction: Eviction,
    database: Database,
}

impl Opened {
    pub(crate) fn new(database: Database, plan: Plan) -> Result<Self> {
        let session = begin(&database);
        let number = session.read(keys::number_path()).map_err(Error::doing("read the block's number"))?;
        let number = match number {
            Some(bytes) => u64::from_be_bytes(
                bytes.try_into().map_err(|bytes| Error::NotADatabase(format!("the number of the newest block is not 8 bytes: {bytes:02x?}")))?,
            ),
            None => 0,
        };
        let head = Head { block: number, root: session.prev_root().into_inner() };
        let eviction = Eviction::new(plan.excess_bytes)?;
        let shared = Shared { session: RwLock::new(Some(session)), block: Mutex::default(), eviction, database };
        Ok(Opened { shared: Arc::new(shared), plan, head: Mutex::new(head), read_bytes_before: read_bytes()? })
    }

    fn buckets(&self) -> u64 {
        self.shared.database.hash_table_utilization().capacity as u64
    }
}

impl State for Opened {
    type Reader = Lookup;

    fn head(&self) -> Head {
        *self.head.lock().expect("nothing that holds the head can panic")
    }

    fn change(&self, name: &Hash, account: Option<&Account>, slots: &[Slot]) -> Result<()> {
        let Some(account) = account else { return self.delete(name, slots) };
        let mut block = self.shared.block()?;
        block.push((keys::account_path(name), KeyReadWrite::Write(Some(encode_account(account)))));
        block.extend(slots.iter().map(|slot| {
            let value = Some(slot.value.as_bytes().to_vec()).filter(|value| !value.is_empty());
            (keys::slot_path(name, &slot.key), KeyReadWrite::Write(value))
        }));
        Ok(())
    }

    fn commit(&self) -> Result<Hash> {
        let mut block = self.shared.block()?;
        let number = self.head().block + 1;
        let mut changes = std::mem::take(&mut *block);
        changes.push((keys::number_path(), KeyReadWrite::Write(Some(number.to_be_bytes().to_vec()))));
        changes.sort_unstable_by_key(|(path, _)| *path);
        if let Some([(path, _), _]) = changes.array_windows().find(|[a, b]| a.0 == b.0) {
            return Err(Error::Failed(format!("commit block {number}: it changes {path:02x?} twice")));
        }
        let doing = |why: &dyn std::fmt::Display| self.failed(number, why);
        let finished = begin(&self.shared.database).finish(changes).map_err(|why| doing(&format_args!("{why:#}")))?;
        let root = finished.root().into_inner();
        self.shared.publish(finished).map_err(|why| doing(&why))?;
        *self.head.lock().expect("nothing that holds the head can panic") = Head { block: number, root };
        Ok(root)
    }

    fn reader(&self) -> Result<Lookup> {
        Ok(Lookup::new(self.shared.clone(), self.plan.prove))
    }

    /// A commit of NOMT's returns when all is done.
    fn settle(&self, _at_most: Duration) -> Result<Option<Unsettled>> {
        Ok(None)
    }

    fn stats(&self) -> Vec<Stat> {
        let Ok(now) = read_bytes() else { return Vec::new() };
        let bytes = now - self.read_bytes_before;
        vec![Stat { name: "reads", value: bytes / PAGE_BYTES }, Stat { name: "read_bytes", value: bytes }]
    }

    fn memory(&self) -> Vec<Memory> {
        self.plan.memory(self.buckets())
    }

    fn effective(&self) -> Vec<(&'static str, String)> {
        self.plan.effective(self.buckets())
    }

    fn close(self) -> Result<()> {
        match Arc::try_unwrap(self.shared) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Failed("close: a reader is still open".into())),
        }
    }
}

impl Opened {
    /// NOMT has no list of an account's slots, so nobody could delete them. An account without
    /// code has none; one with code cannot go. The main network deletes no account with storage
    /// since Cancun, but for one that was made in the same block.
    fn delete(&self, name: &Hash, slots: &[Slot]) -> Result<()> {
        if !slots.is_empty() {
            return Err(Error::Failed(format!("delete account {name:02x?}: it comes with slots")));
        }
        let path = keys::account_path(name);
        let Some(bytes) = self.shared.with_session(|session| session.read(path).map_err(Error::doing("read the account to delete")))? else {
            return Ok(());
        };
        let account = decode_account(&bytes).ok_or_else(|| Error::Failed(format!("the state holds no account but {bytes:02x?}")))?;
        if account.code != EMPTY_CODE {
            return Err(Error::Failed(format!("delete account {name:02x?}: it has code, so it may have slots, and NOMT keeps no list of them")));
        }
        self.shared.block()?.push((path, KeyReadWrite::Write(None)));
        Ok(())
    }

    fn failed(&self, number: u64, why: &dyn std::fmt::Display) -> Error {
        let why = why.to_string();
        if !matches!(meaning(&why), Meaning::Full) {
            return Error::Failed(format!("commit block {number}: {why}"));
        }
        let table = self.shared.database.hash_table_utilization();
        Error::Failed(format!(
            "commit block {number}: the hash table of {} buckets is full: make the state again with more, as in --set hashtable_buckets={}",
            table.capacity,
            table.capacity * 4
        ))
    }
}

impl Shared {
    /// Runs a lookup at the newest block.
    pub fn with_session<T>(&self, look_up: impl FnOnce(&Session<Blake3Hasher>) -> Result<T>) -> Result<T> {
        let session = self.session.read().map_err(|_| broken())?;
        look_up(session.as_ref().ok_or_else(broken)?)
    }

    /// Counts a lookup to come, and has NOMT evict what its caches hold beyond their limits.
    pub fn make_room(&self) -> Result<()> {
        if !self.eviction.is_due()? {
            return Ok(());
        }
        // Somebody commits, and thereby evicts; or adds to a block, and the next lookup but a few sees to it.
        let _block = match self.block.try_lock() {
            Ok(block) => block,
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Poisoned(_)) => return Err(broken()),
        };
        let nothing = begin(&self.database).finish(Vec::new()).map_err(|why| Error::Failed(format!("evict: {why:#}")))?;
        self.publish(nothing)
    }

    fn block(&self) -> Result<MutexGuard<'_, Vec<(Path, KeyReadWrite)>>> {
        self.block.lock().map_err(|_| broken())
    }

    /// Commits, while no lookup is under way, and moves the lookups to come on to it.
    fn publish(&self, finished: FinishedSession) -> Result<()> {
        let mut session = self.session.write().map_err(|_| broken())?;
        *session = None;
        finished.commit(&self.database).map_err(|why| Error::Failed(format!("{why:#}")))?;
        *session = Some(begin(&self.database));
        self.eviction.done()
    }
}

fn begin(database: &Database) -> Session<Blake3Hasher> {
    database.begin_session(SessionParams::default())
}

fn broken() -> Error {
    Error::Failed("an earlier commit failed: close the state and open it again".into())
}
