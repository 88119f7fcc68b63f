//! Lookups.

use std::hint::black_box;
use std::sync::Arc;

use statelab_abi::state::{Account, Error, Hash, Reader, Result, Touched, Value};

use crate::keys::{self, Key, Record};
use crate::state::Shared;

/// Looks up at the newest committed block.
pub struct Lookup {
    shared: Arc<Shared>,
    prove: bool,
}

impl Lookup {
    pub(crate) fn new(shared: Arc<Shared>, prove: bool) -> Self {
        Lookup { shared, prove }
    }

    fn record(&self, key: Key) -> Result<Option<Record>> {
        self.shared.look_up(|runtime, database| {
            let record = runtime.wait(database.get(&key)).map_err(Error::doing("read a value"))?;
            if self.prove && record.is_some() {
                black_box(runtime.wait(database.key_value_proof(key)).map_err(Error::doing("prove a value"))?);
            }
            Ok(record)
        })
    }
}

impl Reader for Lookup {
    fn account(&mut self, name: &Hash) -> Result<Option<Account>> {
        let Some(record) = self.record(keys::account_key(name))? else { return Ok(None) };
        keys::as_account(&record).map(Some).ok_or_else(|| Error::Failed(format!("the state holds no account but {record}")))
    }

    fn slot(&mut self, name: &Hash, key: &Hash) -> Result<Option<Value>> {
        let Some(record) = self.record(keys::slot_key(name, key))? else { return Ok(None) };
        keys::as_slot(&record).map(Some).ok_or_else(|| Error::Failed(format!("the state holds no slot but {record}")))
    }

    /// A value is read without the tree, and QMDB does not tell which nodes a proof read.
    fn touched(&self) -> Touched {
        Touched::default()
    }
}
