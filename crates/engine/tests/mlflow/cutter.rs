//! Stands before a server and loses receipts: the request arrives, the answer does not.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Of each `every` requests that contain `what`, the last one's answer is lost. Returns the port and the number of losses.
pub(crate) fn start(server: u16, what: &'static str, every: usize) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (seen, lost) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let losses = Arc::clone(&lost);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else { continue };
            let loses = Arc::new(AtomicBool::new(false));
            let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (seen, flag) = (Arc::clone(&seen), Arc::clone(&loses));
            std::thread::spawn(move || {
                pass(&from, &to, |bytes| {
                    let has = bytes.windows(what.len()).any(|window| window == what.as_bytes());
                    if has && (seen.fetch_add(1, Ordering::SeqCst) + 1).is_multiple_of(every) {
                        flag.store(true, Ordering::SeqCst);
                    }
                    true
                });
            });
            let lost = Arc::clone(&lost);
            std::thread::spawn(move || {
                pass(&server, &client, |_| {
                    let loses = loses.load(Ordering::SeqCst);
                    lost.fetch_add(usize::from(loses), Ordering::SeqCst);
                    !loses
                });
            });
        }
    });
    (port, losses)
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, mut lets: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 65536];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 || !lets(&buffer[..count]) || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // Whoever is still there is told.
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}
