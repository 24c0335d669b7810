//! Which row of a batch stands for its key, and what it replaces in the table.
//!
//! Rows are offered in any order and the result does not depend on it: the
//! greatest order value wins; of several rows with that value the one whose
//! columns, compared from left to right, are the greatest. Rows equal in every
//! column are one row. A row without a key (a null in it) equals none and is
//! always kept. Against the table the batch's row wins unless the table has a
//! greater order value. Knows bytes and places, neither columns nor files.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

/// Where a row of the batch lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Index of the file among the batch's.
    pub file: usize,
    /// Index of the row in the file.
    pub row: u64,
}

/// Rows to leave out, by file, ascending.
pub type Dropped = BTreeMap<usize, Vec<u64>>;

/// The rows of one batch that stand for their keys.
#[derive(Debug, Default)]
pub struct Winners {
    /// The key's index among the candidates.
    slots: HashMap<Box<[u8]>, usize>,
    candidates: Vec<Candidate>,
    /// Rows that tie with the candidate of a slot, itself included.
    ties: HashMap<usize, Vec<Place>>,
    /// The greatest row of a tie so far, as bytes.
    greatest: HashMap<usize, Box<[u8]>>,
    dropped: Dropped,
    rows: u64,
}

#[derive(Debug)]
struct Candidate {
    order: Box<[u8]>,
    place: Place,
}

/// What a row of a tie turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contest {
    /// The first of its tie, or equal in every column to the one that leads.
    Same,
    /// Another one; the greater of the two leads.
    Different,
}

/// A row of the table whose key the batch has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Index of the row in its file.
    pub row: u64,
    /// The key.
    pub slot: usize,
    /// How the table's order value compares to the batch's.
    pub order: Ordering,
}

/// What a batch does to the files that were looked through.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Rows of the batch that are not written.
    pub own: Dropped,
    /// Rows that the batch replaces, for each file that was looked through.
    pub replaced: Vec<Vec<u64>>,
    /// Those of them beyond the first of their key.
    pub again: Vec<Vec<u64>>,
    /// Rows of the batch that replace one, by file, ascending.
    pub replacing: Dropped,
    /// Keys whose rows were replaced.
    pub updated: u64,
    /// Rows of the batch that the table did not have.
    pub inserted: u64,
}

impl Winners {
    /// Takes a row into account.
    pub fn offer(&mut self, key: Option<&[u8]>, order: &[u8], place: Place) {
        self.rows += 1;
        let Some(key) = key else { return };
        let Some(slot) = self.slots.get(key).copied() else {
            self.slots.insert(key.into(), self.candidates.len());
            self.candidates.push(Candidate { order: order.into(), place });
            return;
        };
        let candidate = &mut self.candidates[slot];
        match order.cmp(&candidate.order) {
            Ordering::Less => drop_row(&mut self.dropped, place),
            Ordering::Equal => self.ties.entry(slot).or_insert_with(|| vec![candidate.place]).push(place),
            Ordering::Greater => {
                let beaten = self.ties.remove(&slot).unwrap_or_else(|| vec![candidate.place]);
                *candidate = Candidate { order: order.into(), place };
                beaten.into_iter().for_each(|place| drop_row(&mut self.dropped, place));
            }
        }
    }

    /// The rows that tie, by file and ascending, each with its key; all of them have to be shown to `contend`.
    pub fn ties(&self) -> BTreeMap<usize, Vec<(u64, usize)>> {
        let mut found: BTreeMap<usize, Vec<(u64, usize)>> = BTreeMap::new();
        for (slot, places) in &self.ties {
            for place in places {
                found.entry(place.file).or_default().push((place.row, *slot));
            }
        }
        found.values_mut().for_each(|rows| rows.sort_unstable());
        found
    }

    /// Compares a row of a tie, as bytes of all its columns, with the one that leads.
    pub fn contend(&mut self, slot: usize, place: Place, row: &[u8]) -> Contest {
        self.ties.remove(&slot);
        let Some(greatest) = self.greatest.get_mut(&slot) else {
            self.greatest.insert(slot, row.into());
            self.candidates[slot].place = place;
            return Contest::Same;
        };
        match row.cmp(greatest) {
            Ordering::Equal => {
                drop_row(&mut self.dropped, place);
                Contest::Same
            }
            Ordering::Less => {
                drop_row(&mut self.dropped, place);
                Contest::Different
            }
            Ordering::Greater => {
                *greatest = row.into();
                drop_row(&mut self.dropped, std::mem::replace(&mut self.candidates[slot].place, place));
                Contest::Different
            }
        }
    }

    /// Looks a row of the table up.
    pub fn look(&self, row: u64, key: &[u8], order: &[u8]) -> Option<Hit> {
        let slot = *self.slots.get(key)?;
        Some(Hit { row, slot, order: order.cmp(&self.candidates[slot].order) })
    }

    /// Rows offered.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Decides over all rows of the table that have a key of the batch.
    pub fn against(&self, files: &[&[Hit]]) -> Verdict {
        let mut standing = vec![Standing::New; self.candidates.len()];
        for hit in files.iter().copied().flatten() {
            let of = &mut standing[hit.slot];
            *of = (*of).max(if hit.order == Ordering::Greater { Standing::Stale } else { Standing::Replaces });
        }
        let replaced = |hits: &&[Hit]| hits.iter().filter(|hit| standing[hit.slot] == Standing::Replaces).map(|hit| hit.row).collect();
        let replaced = files.iter().map(replaced).collect();
        let mut is_first = vec![true; self.candidates.len()];
        let mut again = |hits: &&[Hit]| {
            let of = hits.iter().filter(|hit| standing[hit.slot] == Standing::Replaces);
            of.filter(|hit| !std::mem::take(&mut is_first[hit.slot])).map(|hit| hit.row).collect()
        };
        let again = files.iter().map(&mut again).collect();
        let mut replacing = Dropped::new();
        let mut own = self.dropped.clone();
        let mut updated = 0;
        for (candidate, standing) in self.candidates.iter().zip(&standing) {
            match standing {
                Standing::New => {}
                Standing::Replaces => {
                    updated += 1;
                    drop_row(&mut replacing, candidate.place);
                }
                Standing::Stale => drop_row(&mut own, candidate.place),
            }
        }
        own.values_mut().chain(replacing.values_mut()).for_each(|rows| rows.sort_unstable());
        let left_out: u64 = own.values().map(|rows| rows.len() as u64).sum();
        Verdict { own, replaced, again, replacing, updated, inserted: self.rows - left_out - updated }
    }
}

/// How a key of the batch stands to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// The table has no such key.
    New,
    /// The batch's row replaces the table's.
    Replaces,
    /// The table has a newer row.
    Stale,
}

fn drop_row(dropped: &mut Dropped, place: Place) {
    dropped.entry(place.file).or_default().push(place.row);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Row = (Option<u8>, u8, u8);

    /// The batch's rows that remain and the table's rows that go, by the rule's plain words.
    fn model(batch: &[Row], table: &[(u8, u8)]) -> (Vec<Row>, Vec<usize>) {
        let mut kept: Vec<Row> = batch.iter().filter(|(key, _, _)| key.is_none()).copied().collect();
        let mut gone = Vec::new();
        for key in 0..=u8::MAX {
            let of_key = batch.iter().filter(|row| row.0 == Some(key));
            let Some(winner) = of_key.max_by_key(|(_, order, rest)| (*order, *rest)) else { continue };
            let there: Vec<usize> = (0..table.len()).filter(|row| table[*row].0 == key).collect();
            if there.iter().all(|row| table[*row].1 <= winner.1) {
                kept.push(*winner);
                gone.extend(there);
            }
        }
        kept.sort_unstable();
        gone.sort_unstable();
        (kept, gone)
    }

    fn merged(batch: &[Row], table: &[(u8, u8)], files: usize) -> (Vec<Row>, Vec<usize>, Verdict) {
        let place = |index: usize| Place { file: index % files, row: (index / files) as u64 };
        let at = |place: Place| batch[usize::try_from(place.row).unwrap_or(0) * files + place.file];
        let mut winners = Winners::default();
        for (index, (key, order, _)) in batch.iter().enumerate() {
            winners.offer(key.as_ref().map(std::slice::from_ref), &[*order], place(index));
        }
        for (file, rows) in winners.ties() {
            for (row, slot) in rows {
                winners.contend(slot, Place { file, row }, &[at(Place { file, row }).2]);
            }
        }
        let hits: Vec<Hit> =
            table.iter().enumerate().filter_map(|(row, (key, order))| winners.look(row as u64, &[*key], &[*order])).collect();
        let (one, other) = hits.split_at(hits.len() / 2);
        let verdict = winners.against(&[one, other]);
        let is_dropped = |place: Place| verdict.own.get(&place.file).is_some_and(|rows| rows.binary_search(&place.row).is_ok());
        let mut kept: Vec<Row> = (0..batch.len()).filter(|index| !is_dropped(place(*index))).map(|index| batch[index]).collect();
        let mut gone: Vec<usize> = verdict.replaced.iter().flatten().filter_map(|row| usize::try_from(*row).ok()).collect();
        kept.sort_unstable();
        gone.sort_unstable();
        (kept, gone, verdict)
    }

    proptest! {
        #[test]
        fn one_row_stands_for_each_key_whatever_the_order(
            batch in proptest::collection::vec((proptest::option::of(0_u8..6), 0_u8..4, 0_u8..4), 0..40),
            table in proptest::collection::vec((0_u8..8, 0_u8..5), 0..20),
            files in 1_usize..4,
            seed in any::<u64>(),
        ) {
            let expected = model(&batch, &table);
            let (kept, gone, verdict) = merged(&batch, &table, files);
            prop_assert_eq!((&kept, &gone), (&expected.0, &expected.1));
            prop_assert_eq!(verdict.updated + verdict.inserted, kept.len() as u64);
            // Another way of the rows through lanes and files.
            let mut shuffled = batch.clone();
            let mut state = seed;
            for index in (1..shuffled.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                shuffled.swap(index, usize::try_from(state >> 33).unwrap_or(0) % (index + 1));
            }
            prop_assert_eq!(merged(&shuffled, &table, files).0, kept);
        }

        #[test]
        fn a_batch_merged_into_its_own_result_changes_no_row(
            batch in proptest::collection::vec((proptest::option::of(0_u8..6).prop_filter("keyed", Option::is_some), 0_u8..4, 0_u8..4), 0..40),
        ) {
            let (kept, _, _) = merged(&batch, &[], 2);
            let table: Vec<(u8, u8)> = kept.iter().filter_map(|(key, order, _)| key.map(|key| (key, *order))).collect();
            let (again, gone, verdict) = merged(&batch, &table, 2);
            prop_assert_eq!(&again, &kept);
            prop_assert_eq!(gone.len(), table.len());
            prop_assert_eq!(verdict.inserted, 0);
        }
    }
}
