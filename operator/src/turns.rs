//! Who may go next: a bounded number at once, cheap and urgent ones first.
//!
//! Each waiter's place is the number of its arrival plus its cost, so an
//! expensive one makes way for cheap ones that came soon after it, and for no
//! others: nobody waits for ever. Who is hurried goes before all that were not.
//! A waiter that gave up is passed over, and its turn is never lost.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The turns of whatever is known by `K`.
pub struct Turns<K: Hash + Eq + Clone>(Arc<Mutex<Line<K>>>);

/// The right to go; passed on when dropped.
pub struct Turn<K: Hash + Eq + Clone>(Option<Turns<K>>);

struct Line<K: Hash + Eq + Clone> {
    free: usize,
    arrivals: u64,
    /// By place and arrival.
    waiting: BTreeMap<(u64, u64), Waiter<K>>,
    /// Hurried before they came.
    hurried: HashSet<K>,
}

struct Waiter<K: Hash + Eq + Clone> {
    key: K,
    grant: oneshot::Sender<Turn<K>>,
}

impl<K: Hash + Eq + Clone> Clone for Turns<K> {
    fn clone(&self) -> Self {
        Turns(Arc::clone(&self.0))
    }
}

impl<K: Hash + Eq + Clone> Turns<K> {
    /// That many at once, at least one.
    pub fn new(at_once: usize) -> Turns<K> {
        let line = Line { free: at_once.max(1), arrivals: 0, waiting: BTreeMap::new(), hurried: HashSet::new() };
        Turns(Arc::new(Mutex::new(line)))
    }

    /// Waits for a turn.
    pub async fn take(&self, key: K, cost: u64) -> Turn<K> {
        loop {
            let granted = {
                let mut line = self.0.lock();
                let is_hurried = line.hurried.remove(&key);
                if line.free > 0 {
                    line.free -= 1;
                    return Turn(Some(self.clone()));
                }
                let (grant, granted) = oneshot::channel();
                line.arrivals += 1;
                let arrival = line.arrivals;
                let place = if is_hurried { 0 } else { arrival.saturating_add(cost) };
                line.waiting.insert((place, arrival), Waiter { key: key.clone(), grant });
                granted
            };
            // The line outlives this handle, so a sender never goes without a grant.
            if let Ok(turn) = granted.await {
                return turn;
            }
        }
    }

    /// Lets one go before all that are not hurried: the one that waits, or else the next that comes while others wait.
    pub fn hurry(&self, key: &K) {
        let mut line = self.0.lock();
        if line.waiting.is_empty() {
            return;
        }
        let found = line.waiting.iter().find(|(_, waiter)| waiter.key == *key).map(|(place, _)| *place);
        match found.and_then(|place| Some((place, line.waiting.remove(&place)?))) {
            Some(((_, arrival), waiter)) => {
                line.waiting.insert((0, arrival), waiter);
            }
            None => {
                line.hurried.insert(key.clone());
            }
        }
    }

    fn pass_on(&self) {
        let mut turn = Turn(Some(self.clone()));
        loop {
            let next = {
                let mut line = self.0.lock();
                let next = line.waiting.pop_first();
                if next.is_none() {
                    line.free += 1;
                    line.hurried.clear();
                }
                next
            };
            let Some((_, waiter)) = next else {
                turn.0 = None;
                return;
            };
            match waiter.grant.send(turn) {
                Ok(()) => return,
                Err(back) => turn = back,
            }
        }
    }
}

impl<K: Hash + Eq + Clone> Drop for Turn<K> {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// The order in which waiters of these costs go, who come in this order while the only turn is taken.
    async fn order_of(costs: &[u64], hurried: &[usize], given_up: &[usize]) -> Vec<usize> {
        let turns = Turns::new(1);
        let first = turns.take(usize::MAX, 0).await;
        let went = RefCell::new(Vec::new());
        let mut waiting: Vec<_> = (costs.iter().enumerate())
            .map(|(number, cost)| {
                let (turns, went) = (&turns, &went);
                Box::pin(async move {
                    let _turn = turns.take(number, *cost).await;
                    went.borrow_mut().push(number);
                })
            })
            .collect();
        for waiter in &mut waiting {
            assert!(futures::poll!(waiter).is_pending());
        }
        hurried.iter().for_each(|number| turns.hurry(number));
        let left = waiting.into_iter().enumerate().filter(|(number, _)| !given_up.contains(number)).map(|(_, waiter)| waiter);
        let left: Vec<_> = left.collect();
        drop(first);
        futures::future::join_all(left).await;
        // The turn is there again.
        drop(turns.take(usize::MAX, 0).await);
        went.into_inner()
    }

    #[tokio::test]
    async fn cheap_ones_go_first_and_dear_ones_do_not_wait_for_ever() {
        assert_eq!(order_of(&[0, 0, 0], &[], &[]).await, [0, 1, 2]);
        assert_eq!(order_of(&[2, 0, 0, 0, 0], &[], &[]).await, [1, 0, 2, 3, 4], "the one with the same place came first");
        assert_eq!(order_of(&[100, 3, 0], &[], &[]).await, [2, 1, 0]);
    }

    #[tokio::test]
    async fn hurried_ones_go_before_all_others() {
        assert_eq!(order_of(&[0, 0, 0, 100], &[3, 2], &[]).await, [2, 3, 0, 1]);
        // Hurried before it came, while others wait.
        let turns = Turns::new(1);
        let first = turns.take("first", 0).await;
        let (mut one, mut two) = (Box::pin(turns.take("one", 0)), Box::pin(turns.take("two", 100)));
        assert!(futures::poll!(&mut one).is_pending());
        turns.hurry(&"two");
        assert!(futures::poll!(&mut two).is_pending());
        drop(first);
        assert!(futures::poll!(&mut one).is_pending());
        drop(two.await);
        drop(one.await);
        turns.hurry(&"nobody waits");
        assert!(turns.0.lock().hurried.is_empty());
    }

    #[tokio::test]
    async fn a_turn_of_somebody_who_gave_up_is_not_lost() {
        assert_eq!(order_of(&[0, 0, 0], &[], &[0, 1]).await, [2]);
        let turns = Turns::new(1);
        let first = turns.take(0, 0).await;
        let mut granted = Box::pin(turns.take(1, 0));
        assert!(futures::poll!(&mut granted).is_pending());
        drop(first);
        drop(granted);
        drop(turns.take(2, 0).await);
    }
}
