//! Sockets: how many of one token's subject are open here, whatever the transport.

use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use inkrelay_protocol::ErrorCode;

use super::Refused;

/// What is open, by subject. Who has nothing open is not in it.
#[derive(Debug, Default)]
pub struct Sockets {
    open: DashMap<Arc<str>, usize>,
}

/// One of them, as long as it lives.
#[derive(Debug)]
pub struct OpenSocket {
    sockets: Arc<Sockets>,
    subject: Arc<str>,
}

impl Sockets {
    /// Counts one more of that subject, unless it has `max` already; 0 is no limit.
    ///
    /// # Errors
    /// When it has as many as it may.
    pub fn open(self: &Arc<Self>, subject: &Arc<str>, max: usize) -> Result<OpenSocket, Refused> {
        let mut count = self.open.entry(Arc::clone(subject)).or_insert(0);
        if max != 0 && *count >= max {
            let why = "this token's subject has as many connections open as it may";
            return Err(Refused::new(ErrorCode::TooManyConnections, why));
        }
        *count += 1;
        Ok(OpenSocket { sockets: Arc::clone(self), subject: Arc::clone(subject) })
    }
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.sockets.open.entry(Arc::clone(&self.subject)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_so_many_open_at_once() {
        let sockets = Arc::new(Sockets::default());
        let [ann, ben] = ["ann", "ben"].map(Arc::from);
        let [first, second] = [(); 2].map(|()| sockets.open(&ann, 2).unwrap());
        let refused = sockets.open(&ann, 2).unwrap_err();
        assert!(refused.code == ErrorCode::TooManyConnections && refused.retry.is_some());
        drop(sockets.open(&ben, 2).unwrap());
        let third = sockets.open(&ann, 0).unwrap();
        drop((first, third));
        let first = sockets.open(&ann, 2).unwrap();
        assert!(sockets.open(&ann, 2).is_err());
        drop((first, second));
        assert!(sockets.open.is_empty(), "nothing is kept of those who left");
    }
}
