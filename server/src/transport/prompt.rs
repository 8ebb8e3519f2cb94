//! A future that wakes itself is polled again at once.
//!
//! hyper hands a request's body from one half of a connection to the other, both of which are polled by one task, so
//! that each body wakes that task from within. The scheduler takes this for a task that gives way to others: it goes to
//! the end of the queue, and another worker is woken to take it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Polls in a row at most; then others have their turn.
const POLLS: usize = 8;

const WAITS: u8 = 0;
const IS_POLLED: u8 = 1;
const IS_WOKEN: u8 = 2;

/// See the module's documentation.
pub struct Prompt<F> {
    future: F,
    state: Arc<State>,
    waker: Waker,
}

#[derive(Default)]
struct State {
    /// One of the three above.
    now: AtomicU8,
    /// The task around.
    task: AtomicWaker,
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let woken = |now| (now == IS_POLLED).then_some(IS_WOKEN);
        if self.now.fetch_update(Ordering::AcqRel, Ordering::Acquire, woken) == Err(WAITS) {
            self.task.wake();
        }
    }
}

impl<F> Prompt<F> {
    /// Around a future.
    pub fn new(future: F) -> Self {
        let state = Arc::<State>::default();
        Self { future, waker: Waker::from(Arc::clone(&state)), state }
    }

    /// The future.
    pub const fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }
}

impl<F: Future + Unpin> Future for Prompt<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        this.state.task.register(context.waker());
        for _ in 0..POLLS {
            this.state.now.store(IS_POLLED, Ordering::Release);
            let polled = Pin::new(&mut this.future).poll(&mut Context::from_waker(&this.waker));
            let is_woken = this.state.now.swap(WAITS, Ordering::AcqRel) == IS_WOKEN;
            if polled.is_ready() || !is_woken {
                return polled;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// The task around, which counts how often it is woken.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Polls a future that wakes itself that many times: whether it is ready, and how often its task was woken.
    fn polled(own_wakes: usize) -> (bool, usize) {
        let task = Arc::<Task>::default();
        let mut left = own_wakes;
        let mut future = Prompt::new(Box::pin(poll_fn(|context| {
            let Some(fewer) = left.checked_sub(1) else { return Poll::Ready(()) };
            left = fewer;
            context.waker().wake_by_ref();
            Poll::Pending
        })));
        let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&Waker::from(Arc::clone(&task))));
        (polled.is_ready(), task.0.load(Ordering::Acquire))
    }

    #[test]
    fn what_wakes_itself_is_polled_again_but_not_for_ever() {
        assert_eq!(polled(0), (true, 0));
        assert_eq!(polled(2), (true, 0));
        assert_eq!(polled(POLLS - 1), (true, 0));
        assert_eq!(polled(POLLS), (false, 1));
        assert_eq!(polled(usize::MAX), (false, 1));
    }

    #[test]
    fn what_is_woken_by_others_wakes_its_task() {
        let task = Arc::<Task>::default();
        let inner = Mutex::new(None);
        let mut future = pin!(Prompt::new(Box::pin(poll_fn(|context| {
            let is_first = inner.lock().unwrap().replace(context.waker().clone()).is_none();
            if is_first { Poll::Pending } else { Poll::Ready(()) }
        }))));
        let waker = Waker::from(Arc::clone(&task));
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(task.0.load(Ordering::Acquire), 0);
        let woken = inner.lock().unwrap().clone().unwrap();
        woken.wake_by_ref();
        assert_eq!(task.0.load(Ordering::Acquire), 1);
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    }
}
