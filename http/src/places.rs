//! Who makes room when all places are taken.
//!
//! Connections that wait for a request before those with an answer under way,
//! and of each kind the one that has been so longest. Pure: time is the order of
//! changes, and letting go of what is held is the caller's way to tell the loser.

use std::collections::BTreeMap;

/// The number of a connection; none comes twice.
pub(crate) type Place = u64;

/// In the order in which they make room; each since which change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Waiting(u64),
    Answering(u64),
}

/// The places, each with something that its connection is known by.
pub(crate) struct Places<T> {
    most: usize,
    changes: u64,
    taken: BTreeMap<Place, (State, T)>,
}

impl<T> Places<T> {
    /// That many, at least one.
    pub(crate) fn new(most: usize) -> Places<T> {
        Places { most: most.max(1), changes: 0, taken: BTreeMap::new() }
    }

    /// A place for one more; where all are taken, one connection loses its own.
    pub(crate) fn take(&mut self, held: T) -> Place {
        if self.taken.len() >= self.most {
            let loser = self.taken.iter().min_by_key(|(_, (state, _))| *state).map(|(place, _)| *place);
            loser.and_then(|place| self.taken.remove(&place));
        }
        let place = self.next_change();
        self.taken.insert(place, (State::Waiting(place), held));
        place
    }

    /// An answer is under way.
    pub(crate) fn answers(&mut self, place: Place) {
        self.change(place, State::Answering);
    }

    /// It is given; the next request is waited for.
    pub(crate) fn waits(&mut self, place: Place) {
        self.change(place, State::Waiting);
    }

    /// The connection has ended.
    pub(crate) fn leave(&mut self, place: Place) {
        self.taken.remove(&place);
    }

    fn change(&mut self, place: Place, to: impl FnOnce(u64) -> State) {
        let change = self.next_change();
        // One that has lost its place changes nothing any more.
        if let Some((state, _)) = self.taken.get_mut(&place) {
            *state = to(change);
        }
    }

    fn next_change(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(places: &Places<&'static str>) -> Vec<&'static str> {
        places.taken.values().map(|(_, held)| *held).collect()
    }

    #[test]
    fn the_longest_waiting_one_makes_room_before_any_that_is_answered() {
        let mut places = Places::new(3);
        let [a, b, c] = ["a", "b", "c"].map(|name| places.take(name));
        places.answers(a);
        places.answers(b);
        places.waits(b);
        // c has waited since it came, b since its answer.
        let d = places.take("d");
        assert_eq!(held(&places), ["a", "b", "d"]);
        places.take("e");
        assert_eq!(held(&places), ["a", "d", "e"]);
        places.answers(c);
        places.waits(b);
        assert_eq!(held(&places), ["a", "d", "e"], "who lost its place comes back by nothing");
        places.answers(d);
        places.take("f");
        assert_eq!(held(&places), ["a", "d", "f"]);
    }

    #[test]
    fn where_all_are_answered_the_oldest_answer_makes_room() {
        let mut places = Places::new(2);
        let [a, b] = ["a", "b"].map(|name| places.take(name));
        places.answers(b);
        places.answers(a);
        places.take("c");
        assert_eq!(held(&places), ["a", "c"]);
        places.leave(a);
        places.take("d");
        assert_eq!(held(&places), ["c", "d"], "a place that was left is free");
    }

    #[test]
    fn there_is_always_one_place() {
        let mut places = Places::new(0);
        places.take("a");
        places.take("b");
        assert_eq!(held(&places), ["b"]);
    }
}
