//! commonware's runtime, kept alive beside threads that are not its own.
//!
//! It runs a future to its end and is gone. So a thread runs one that waits to be told to stop,
//! and everybody else polls their own futures, on their own threads, within its reach.

use std::any::Any;
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use commonware_runtime::tokio::{Config, Context, Runner};
use commonware_runtime::{Metrics as _, Runner as _};
use statelab_abi::state::{Error, Result};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Futures are polled by who waits for them; the runtime's own threads have next to nothing to do.
const WORKERS: usize = 1;

/// The runtime, which stops when it is dropped.
pub struct Runtime {
    context: Option<Context>,
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Runtime {
    /// Starts the runtime over a folder, which is flushed to disk first.
    pub fn start(folder: &Path) -> Result<Runtime> {
        let config = Config::new().with_worker_threads(WORKERS).with_storage_directory(folder);
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, started) = mpsc::channel();
        let run = move || {
            Runner::new(config).start(|context| async move {
                // Where nobody waits any more, or the sender is dropped, it is time to stop.
                if ready.send((context, Handle::current())).is_ok() {
                    stopped.await.unwrap_or_default();
                }
            });
        };
        let thread = thread::Builder::new().name("qmdb".into()).spawn(run).map_err(Error::doing("start the runtime's thread"))?;
        match started.recv() {
            Ok((context, handle)) => Ok(Runtime { context: Some(context), handle, stop: Some(stop), thread: Some(thread) }),
            Err(_) => Err(ended(thread)),
        }
    }

    /// What the runtime gives to those who store.
    pub fn context(&self) -> &Context {
        self.context.as_ref().expect("it is there until the end")
    }

    /// Polls a future on this thread until it is done.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.handle.block_on(future)
    }

    /// The runtime's own count of a name, a total since its start.
    pub fn counts<const N: usize>(&self, names: [&str; N]) -> [Option<u64>; N] {
        let text = self.context().encode();
        names.map(|name| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|count| count.parse().ok())
        })
    }

    /// Stops the runtime; nothing of it may be in use.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.context = None;
        self.stop = None;
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().map_err(|panic| words(panic.as_ref()))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Who wants to know why it ended badly calls stop.
        let _ = self.end();
    }
}

/// Why a thread ended that should not have.
fn ended(thread: JoinHandle<()>) -> Error {
    match thread.join() {
        Ok(()) => Error::Failed("start the runtime: it stopped at once".into()),
        Err(panic) => words(panic.as_ref()),
    }
}

fn words(panic: &(dyn Any + Send)) -> Error {
    let literal = panic.downcast_ref::<&str>().copied();
    let words = literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::Failed(format!("run commonware's runtime: {}", words.unwrap_or("it panicked: see standard error")))
}
