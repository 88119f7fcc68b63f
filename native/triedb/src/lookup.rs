//! Lookups.

use std::sync::Arc;

use alloy_trie::Nibbles;
use statelab_abi::state::{Account, Hash, Reader, Result, Touched, Value};
use triedb::Database;
use triedb::path::{AddressPath, StoragePath};
use triedb::transaction::{RO, Transaction};

use crate::pages;
use crate::state::{Shared, broken, failed};

/// A transaction remembers where it met accounts with storage, without limit: a client's lasts a
/// block.
const REMEMBERED: u32 = 1 << 16;

/// Looks up at the newest committed block.
pub struct Lookup {
    shared: Arc<Shared>,
    /// None once it has ended and no other could begin.
    at: Option<At>,
    pages: u64,
}

struct At {
    block: u64,
    transaction: Transaction<Arc<Database>, RO>,
    accounts: u32,
}

impl Lookup {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Self> {
        let mut lookup = Lookup { shared, at: None, pages: 0 };
        lookup.look_up(|_| Ok(()))?;
        Ok(lookup)
    }

    /// Looks up in the transaction, or a new one if blocks have been committed since it began.
    fn look_up<T>(&mut self, f: impl FnOnce(&mut At) -> Result<T>) -> Result<T> {
        if self.at.as_ref().is_none_or(|at| at.block != self.shared.block()) {
            self.end()?;
            let (block, transaction) = self.shared.begin()?;
            self.at = Some(At { block, transaction, accounts: 0 });
        }
        let before = pages::read_by_this_thread();
        let found = f(self.at.as_mut().ok_or_else(broken)?);
        self.pages += pages::read_by_this_thread() - before;
        found
    }

    fn end(&mut self) -> Result<()> {
        self.at.take().map_or(Ok(()), |at| at.transaction.commit().map_err(failed("end a lookup's transaction")))
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        let _ = self.end(); // a state that is broken says so to its next caller
    }
}

impl Reader for Lookup {
    fn account(&mut self, name: &Hash) -> Result<Option<Account>> {
        let path = address(name);
        let found = self.look_up(|at| {
            at.accounts += 1;
            if at.accounts.is_multiple_of(REMEMBERED) {
                at.transaction.clear_cache();
            }
            at.transaction.get_account(&path).map_err(failed("read an account"))
        })?;
        Ok(found.map(|account| Account { nonce: account.nonce, balance: account.balance.to_be_bytes(), code: account.code_hash.0 }))
    }

    fn slot(&mut self, name: &Hash, key: &Hash) -> Result<Option<Value>> {
        let path = slot(name, key);
        let found = self.look_up(|at| at.transaction.get_storage_slot(&path).map_err(failed("read a slot")))?;
        Ok(found.and_then(|value| Value::new(&value.to_be_bytes_trimmed_vec())))
    }

    /// TrieDB counts the pages; of nodes it keeps no count.
    fn touched(&self) -> Touched {
        Touched { nodes: None, pages: Some(self.pages) }
    }
}

/// The path of an account.
pub fn address(name: &Hash) -> AddressPath {
    AddressPath::new(Nibbles::unpack(name))
}

/// The path of a slot of an account.
pub fn slot(name: &Hash, key: &Hash) -> StoragePath {
    StoragePath::for_address_path_and_slot_hash(address(name), Nibbles::unpack(key))
}
