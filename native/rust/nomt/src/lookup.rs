//! Lookups.

use std::sync::Arc;

use nomt::hasher::{Blake3Hasher, ValueHasher};
use nomt::proof::{PathProof, PathProofTerminal};
use statelab_abi::state::{Account, Error, Hash, Reader, Result, Touched, Value, decode_account};

use crate::keys::{self, Path};
use crate::plan::PAGE_BYTES;
use crate::state::Shared;

/// Levels of the trie in a page.
const PAGE_LEVELS: u64 = 6;

const _: () = assert!((1 << (PAGE_LEVELS + 1)) * 32 == PAGE_BYTES, "126 nodes and what describes them fill a page");

/// Looks up at the newest committed block.
pub struct Lookup {
    shared: Arc<Shared>,
    prove: bool,
    nodes: u64,
    pages: u64,
}

impl Lookup {
    pub(crate) fn new(shared: Arc<Shared>, prove: bool) -> Self {
        Lookup { shared, prove, nodes: 0, pages: 0 }
    }

    fn value(&mut self, path: Path) -> Result<Option<Vec<u8>>> {
        self.shared.make_room()?;
        let (value, proof) = self.shared.with_session(|session| {
            let value = session.read(path).map_err(Error::doing("read a value"))?;
            let proof = self.prove.then(|| session.prove(path).map_err(Error::doing("prove a value"))).transpose()?;
            Ok((value, proof))
        })?;
        if let Some(proof) = proof {
            let (nodes, pages) = touched_by(&proof);
            self.nodes += nodes;
            self.pages += pages;
            agree(path, value.as_deref(), &proof)?;
        }
        Ok(value)
    }
}

impl Reader for Lookup {
    fn account(&mut self, name: &Hash) -> Result<Option<Account>> {
        let Some(bytes) = self.value(keys::account_path(name))? else { return Ok(None) };
        Ok(Some(decode_account(&bytes).ok_or_else(|| Error::Failed(format!("the state holds no account but {bytes:02x?}")))?))
    }

    fn slot(&mut self, name: &Hash, key: &Hash) -> Result<Option<Value>> {
        let Some(bytes) = self.value(keys::slot_path(name, key))? else { return Ok(None) };
        Ok(Some(keys::decode_slot(&bytes).ok_or_else(|| Error::Failed(format!("the state holds no slot but {bytes:02x?}")))?))
    }

    fn touched(&self) -> Touched {
        if self.prove { Touched { nodes: Some(self.nodes), pages: Some(self.pages) } } else { Touched::default() }
    }
}

/// The nodes and pages of the trie on a proof's path. A proof has the sibling of every node on
/// the path but the root's: as many as the last node's depth, of which each six are in one
/// page. A terminator is where a node would be. NOMT makes pages that it does not store from the
/// leaves; they count as well.
fn touched_by(proof: &PathProof) -> (u64, u64) {
    let depth = proof.siblings.len() as u64;
    let leaf = matches!(proof.terminal, PathProofTerminal::Leaf(_));
    (depth + u64::from(leaf), depth.div_ceil(PAGE_LEVELS))
}

/// A proof that is of another value than was read is the worst of wrong answers.
fn agree(path: Path, value: Option<&[u8]>, proof: &PathProof) -> Result<()> {
    let proven = match &proof.terminal {
        PathProofTerminal::Leaf(leaf) if leaf.key_path == path => Some(leaf.value_hash),
        _ => None,
    };
    if proven == value.map(Blake3Hasher::hash_value) {
        return Ok(());
    }
    Err(Error::Failed(format!("the value under {path:02x?} is not the one that NOMT proves")))
}
