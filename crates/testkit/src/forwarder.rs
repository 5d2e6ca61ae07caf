//! A port of loopback that leads to another, until it is told to cut or to fall silent.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Ends with its owner.
pub(crate) struct Forwarder {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    thawed: Condvar,
}

#[derive(Default)]
struct State {
    open: HashMap<u64, [TcpStream; 2]>,
    next: u64,
    bytes: u64,
    /// Of `bytes`.
    limit: Option<u64>,
    cuts: usize,
    frozen: bool,
    refuses: bool,
    /// After the next cut at a limit.
    then_refuses: bool,
    ended: bool,
}

impl Forwarder {
    pub(crate) fn start(to: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared::default());
        let inside = Arc::clone(&shared);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if inside.state().ended {
                    return;
                }
                // Dropping the near end is what a refusal looks like from there.
                let refuses = inside.state().refuses;
                if let (false, Ok(far)) = (refuses, TcpStream::connect((Ipv4Addr::LOCALHOST, to))) {
                    let _ = inside.connect(near, far);
                }
            }
        });
        Self { port, shared }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn cut(&self) {
        self.shared.state().cut();
        self.shared.thawed.notify_all();
    }

    pub(crate) fn cut_after(&self, bytes: u64) {
        assert!(bytes > 0, "a byte has to go through before it can be cut");
        let mut state = self.shared.state();
        state.limit = Some(state.bytes + bytes);
    }

    /// The same, and nobody is let in after that.
    pub(crate) fn close_after(&self, bytes: u64) {
        self.cut_after(bytes);
        self.shared.state().then_refuses = true;
    }

    pub(crate) fn cuts(&self) -> usize {
        self.shared.state().cuts
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.shared.state().bytes
    }

    /// From now on nobody is let in, and who was is put out; or they are again.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.shared.state().refuses = refuses;
        if refuses {
            self.cut();
        }
    }

    pub(crate) fn freeze(&self) {
        self.shared.state().frozen = true;
    }

    pub(crate) fn thaw(&self) {
        self.shared.state().frozen = false;
        self.shared.thawed.notify_all();
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.ended = true;
        state.frozen = false;
        state.cut();
        drop(state);
        self.shared.thawed.notify_all();
        // Wakes the thread that listens.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(self: &Arc<Self>, near: TcpStream, far: TcpStream) -> std::io::Result<()> {
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let (near_too, far_too) = (near.try_clone()?, far.try_clone()?);
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.open.insert(number, [near.try_clone()?, far.try_clone()?]);
        drop(state);
        let (there, back) = (Arc::clone(self), Arc::clone(self));
        std::thread::spawn(move || there.carry(number, near, far));
        std::thread::spawn(move || back.carry(number, far_too, near_too));
        Ok(())
    }

    /// Until one side ends or all are cut.
    fn carry(&self, number: u64, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = from.read(&mut buffer).unwrap_or(0);
            let (allowed, reached) = self.admit(number, read);
            let written = to.write_all(&buffer[..allowed]);
            if reached {
                self.state().cut();
            }
            if allowed == 0 || reached || written.is_err() {
                break;
            }
        }
        let mut state = self.state();
        if let Some(both) = state.open.remove(&number) {
            close(&both);
        }
    }

    /// How many of these bytes may pass, and whether the limit is reached with them.
    fn admit(&self, number: u64, read: usize) -> (usize, bool) {
        let mut state = self.state();
        while state.frozen && read > 0 {
            state = self.thawed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.open.contains_key(&number) {
            return (0, false);
        }
        let room = state.limit.map_or(u64::MAX, |limit| limit - state.bytes);
        let allowed = read.min(usize::try_from(room).unwrap_or(usize::MAX));
        state.bytes += allowed as u64;
        let reached = read > 0 && state.limit == Some(state.bytes);
        if reached {
            state.limit = None;
            state.cuts += 1;
            state.refuses |= state.then_refuses;
            state.then_refuses = false;
        }
        (allowed, reached)
    }
}

impl State {
    fn cut(&mut self) {
        self.open.drain().for_each(|(_, both)| close(&both));
    }
}

fn close(both: &[TcpStream; 2]) {
    both.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
}
