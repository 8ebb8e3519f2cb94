//! The ways of this program to pass messages.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::run::Failure;

/// Turns of a loop before it leaves the core to others.
const SPINS: u32 = 100;

/// One way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Worker {
    /// Two processes over a socket pair, a line of JSON to a message, written one by one as Node.js does.
    Processes,
    /// The other one of `Processes`.
    Echo,
    /// Two threads over a pair of bounded channels.
    Threads,
    /// Two tasks over a pair of bounded channels, on two threads.
    Tasks,
    /// Two threads over one slot.
    Atomic,
}

/// What is passed.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Message {
    n: u64,
}

impl Worker {
    /// Passes the messages, and returns the seconds that it took.
    ///
    /// # Errors
    /// When one comes out of order, or not at all.
    pub fn run(self, count: u64, window: u64) -> Result<f64, Failure> {
        match self {
            Self::Processes => processes(count, window),
            Self::Echo => echo().map(|()| 0.0),
            Self::Threads => threads(count, window),
            Self::Tasks => tasks(count, window),
            Self::Atomic => atomic(count),
        }
    }
}

fn check(came: u64, due: u64) -> Result<(), Failure> {
    if came == due { Ok(()) } else { Err(format!("message {due} was due, and {came} came").into()) }
}

fn write(socket: &mut UnixStream, message: &Message) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(socket.write_all(&line)?)
}

fn processes(count: u64, window: u64) -> Result<f64, Failure> {
    let (mut socket, others) = UnixStream::pair()?;
    let mut other = Command::new(std::env::current_exe()?)
        .args(["messaging", "--worker", "echo"])
        .stdin(OwnedFd::from(others))
        .stdout(Stdio::null())
        .spawn()?;
    let mut lines = BufReader::new(socket.try_clone()?);
    let mut line = String::new();
    let mut receive = || -> Result<Message, Failure> {
        line.clear();
        lines.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    };
    // The first one comes back when the other process is up.
    write(&mut socket, &Message { n: u64::MAX })?;
    receive()?;
    let began = Instant::now();
    let mut sent = 0;
    while sent < count.min(window) {
        write(&mut socket, &Message { n: sent })?;
        sent += 1;
    }
    for received in 0..count {
        check(receive()?.n, received)?;
        if sent < count {
            write(&mut socket, &Message { n: sent })?;
            sent += 1;
        }
    }
    let took = began.elapsed().as_secs_f64();
    socket.shutdown(std::net::Shutdown::Write)?;
    other.wait()?;
    Ok(took)
}

/// Sends back what comes over its standard input, which is a socket, until that ends.
fn echo() -> Result<(), Failure> {
    let mut socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut lines = BufReader::new(socket.try_clone()?);
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        let message: Message = serde_json::from_str(&line)?;
        write(&mut socket, &message)?;
        line.clear();
    }
    Ok(())
}

fn threads(count: u64, window: u64) -> Result<f64, Failure> {
    let capacity = usize::try_from(window)?;
    let (there, taking) = mpsc::sync_channel::<Message>(capacity);
    let (returning, back) = mpsc::sync_channel::<Message>(capacity);
    let began = Instant::now();
    let other = std::thread::spawn(move || {
        for message in taking {
            if returning.send(message).is_err() {
                return;
            }
        }
    });
    let mut sent = 0;
    while sent < count.min(window) {
        there.send(Message { n: sent })?;
        sent += 1;
    }
    for received in 0..count {
        check(back.recv()?.n, received)?;
        if sent < count {
            there.send(Message { n: sent })?;
            sent += 1;
        }
    }
    drop(there);
    other.join().map_err(|_| "the other thread panicked")?;
    Ok(began.elapsed().as_secs_f64())
}

fn tasks(count: u64, window: u64) -> Result<f64, Failure> {
    use tokio::sync::mpsc;

    let capacity = usize::try_from(window)?;
    let (there, mut taking) = mpsc::channel::<Message>(capacity);
    let (returning, mut back) = mpsc::channel::<Message>(capacity);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let began = Instant::now();
    let other = runtime.spawn(async move {
        while let Some(message) = taking.recv().await {
            if returning.send(message).await.is_err() {
                return;
            }
        }
    });
    // A task too: what `block_on` runs stays on the thread that called it.
    let own = runtime.spawn(async move {
        let mut sent = 0;
        while sent < count.min(window) {
            there.send(Message { n: sent }).await?;
            sent += 1;
        }
        for received in 0..count {
            check(back.recv().await.ok_or("the other task ended")?.n, received)?;
            if sent < count {
                there.send(Message { n: sent }).await?;
                sent += 1;
            }
        }
        Ok::<_, Failure>(())
    });
    runtime.block_on(async {
        own.await??;
        other.await?;
        Ok::<_, Failure>(())
    })?;
    Ok(began.elapsed().as_secs_f64())
}

/// One puts a number into the slot when it is empty, the other takes it out: 0 says that it was taken.
fn atomic(count: u64) -> Result<f64, Failure> {
    let slot = AtomicU64::new(0);
    let turn = |from, to| {
        let mut spins = 0_u32;
        while slot.compare_exchange_weak(from, to, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(SPINS) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| (1..=count).for_each(|n| turn(n, 0)));
        (1..=count).for_each(|n| turn(0, n));
    });
    check(slot.load(Ordering::Acquire), 0)?;
    Ok(began.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_passed_whatever_the_window() {
        for worker in [Worker::Threads, Worker::Tasks, Worker::Atomic] {
            for (count, window) in [(0, 1), (1, 1), (1000, 1), (1000, 64), (10, 1024)] {
                worker.run(count, window).unwrap();
            }
        }
    }
}
