//! Merging a batch into the table by key (`upsertKeys`): copy on write, as
//! `MERGE INTO` with `UPDATE SET *` and `INSERT *`.
//!
//! Lanes write ordinary data files. At the commit the key columns of these
//! files are read back: which of several rows of a key stands for it is a pure
//! function (`winners`), so are the tie and the table's newer row. Files of the
//! table that may hold a key (`prune`) are looked through, those that do are
//! written again without the replaced rows (`rewrite`), and one log entry
//! removes and adds. A merge is made onto one version and takes effect as the
//! next or not at all; after a lost race only files not seen before are read.
//!
//! Memory is one entry per key of the batch and one slice of rows.

mod changes;
mod encode;
mod keys;
mod prune;
mod read;
mod rewrite;
mod targets;
mod winners;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::FieldRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use futures::stream::FuturesUnordered;
use weir_core::{Error, Result};

pub use keys::Keys;

use self::changes::Told;
use self::encode::{Encoder, converter, normalized, unencoded};
use self::prune::Pruner;
use self::read::TableFile;
use self::rewrite::{Rewrite, rewrite};
use self::targets::Target;
use self::winners::{Contest, Hit, Place, Verdict, Winners};
use super::action::Remove;
use super::layout::Layout;
use super::location::TableLocation;
use super::writer::WriterSettings;
use crate::sink::WrittenFile;

/// Files of the table that are looked through at once.
const FILES_AT_ONCE: usize = 4;

/// What a merge onto one version comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// The keys by which it was merged.
    pub keys: Keys,
    /// Files to add: the batch's own, and what was written again.
    pub added: Vec<WrittenFile>,
    /// Files of the table that are replaced.
    pub removed: Vec<Remove>,
    /// Files that tell the changes, where the table's change data feed asks for them.
    pub changes: Vec<WrittenFile>,
    /// Rows of the batch.
    pub source_rows: u64,
    /// Rows that the table did not have.
    pub inserted: u64,
    /// Keys whose rows were replaced.
    pub updated: u64,
    /// Rows of the table beyond the first of an updated key.
    pub collapsed: u64,
    /// Rows of the table that were only copied.
    pub copied: u64,
}

/// The merge of one batch, through all attempts to commit it.
pub struct Merging {
    location: TableLocation,
    settings: WriterSettings,
    keys: Keys,
    /// Key columns and then the order column.
    fields: Vec<FieldRef>,
    encoder: Encoder,
    files: Vec<WrittenFile>,
    own: Vec<TableFile>,
    winners: Winners,
    pruner: Arc<Pruner>,
    looked: HashMap<String, Looked>,
    rewritten: Option<Rewritten>,
    /// Names of all files written again, of every attempt.
    made: Vec<String>,
}

/// What a file of the table holds of the batch's keys.
struct Looked {
    hits: Vec<Hit>,
    /// Rows that are deleted already.
    deleted: Vec<u64>,
}

/// Files written again, and for what.
struct Rewritten {
    plan: Vec<(String, Vec<u64>)>,
    whole: Arc<Layout>,
    files: Vec<WrittenFile>,
    /// Change files, if any are wanted.
    changes: Option<Vec<WrittenFile>>,
}

impl Merging {
    /// Reads the keys of a batch's files; refuses several rows of one key that nothing tells apart.
    pub async fn begin(
        location: TableLocation,
        layout: &Layout,
        keys: &Keys,
        files: &[WrittenFile],
        settings: WriterSettings,
    ) -> Result<Self> {
        let fields = keys.fields(layout)?;
        let stored = layout.stored(&fields[..keys.columns.len()]);
        let pruner = Arc::new(Pruner::new(&stored, &layout.physical_partitions, files)?);
        let own = |file: &WrittenFile| TableFile { name: file.path.clone(), values: file.partition_values.iter().cloned().collect() };
        let mut merging = Self {
            location,
            settings,
            keys: keys.clone(),
            encoder: Encoder::new(&fields, keys.columns.len())?,
            fields,
            own: files.iter().map(own).collect(),
            files: files.to_vec(),
            winners: Winners::default(),
            pruner,
            looked: HashMap::new(),
            rewritten: None,
            made: Vec::new(),
        };
        for file in 0..merging.own.len() {
            merging.offer(file, layout).await?;
        }
        merging.settle(layout).await?;
        Ok(merging)
    }

    async fn offer(&mut self, file: usize, layout: &Layout) -> Result<()> {
        let mut rows = read::open(&self.location, &self.own[file], &self.fields, layout).await?;
        while let Some(slice) = rows.next().await? {
            let encoded = self.encoder.encode(&slice.columns)?;
            for row in 0..slice.rows {
                let place = Place { file, row: slice.first_row + row as u64 };
                self.winners.offer(encoded.key(row), encoded.order(row), place);
            }
        }
        Ok(())
    }

    /// Compares rows that tie by all their columns.
    async fn settle(&mut self, layout: &Layout) -> Result<()> {
        for (file, tied) in self.winners.ties() {
            let fields = layout.written.fields();
            let all = converter(fields.iter().map(|field| field.data_type().clone()))?;
            let mut rows = read::open(&self.location, &self.own[file], fields, layout).await?;
            let mut tied = tied.as_slice();
            while let Some(slice) = rows.next().await? {
                let end = slice.first_row + slice.rows as u64;
                let (here, rest) = tied.split_at(tied.partition_point(|(row, _)| *row < end));
                tied = rest;
                if here.is_empty() {
                    continue;
                }
                let columns: Vec<ArrayRef> = slice.columns.iter().map(normalized).collect();
                let encoded = all.convert_columns(&columns).map_err(unencoded)?;
                for (row, slot) in here {
                    let at = usize::try_from(row - slice.first_row).unwrap_or(0);
                    let contest = self.winners.contend(*slot, Place { file, row: *row }, encoded.row(at).data());
                    if contest == Contest::Different && self.keys.order.is_none() {
                        return Err(ambiguous(&self.key_text(layout, &slice.columns, at)));
                    }
                }
            }
        }
        Ok(())
    }

    fn key_text(&self, layout: &Layout, columns: &[ArrayRef], row: usize) -> String {
        let text = |name: &String| {
            let column = &columns[layout.written.index_of(name).ok()?];
            Some(format!("{name} = {}", ArrayFormatter::try_new(column, &FormatOptions::default()).ok()?.value(row)))
        };
        self.keys.columns.iter().filter_map(text).collect::<Vec<_>>().join(", ")
    }

    /// Merges onto a version of the table, or into a table yet to be created.
    pub async fn onto(&mut self, version: Option<u64>, layout: &Layout, now_ms: i64) -> Result<Merged> {
        let targets = match version {
            Some(version) if self.winners.rows() > 0 => targets::list(&self.location, version, Arc::clone(&self.pruner)).await?,
            _ => Vec::new(),
        };
        let looked = self.look_through(&targets, layout).await?;
        self.looked.extend(looked);
        let hits: Vec<&[Hit]> = targets.iter().map(|target| self.looked[&target.identity()].hits.as_slice()).collect();
        let verdict = self.winners.against(&hits);
        let replaced_rows: u64 = verdict.replaced.iter().map(|rows| rows.len() as u64).sum();
        let touched: Vec<(&Target, &Vec<u64>)> = targets.iter().zip(&verdict.replaced).filter(|(_, rows)| !rows.is_empty()).collect();

        let mut rewrites: Vec<Rewrite<'_>> = Vec::new();
        let mut plan: Vec<(String, Vec<u64>)> = Vec::new();
        let mut own_rows = 0;
        for (file, dropped) in &verdict.own {
            own_rows += self.files[*file].rows - dropped.len() as u64;
            plan.push((self.own[*file].name.clone(), dropped.clone()));
            rewrites.push(Rewrite { file: &self.own[*file], without: dropped.clone() });
        }
        for (target, replaced) in &touched {
            let mut without = self.looked[&target.identity()].deleted.clone();
            without.extend(*replaced);
            without.sort_unstable();
            plan.push((target.identity(), without.clone()));
            rewrites.push(Rewrite { file: &target.file, without });
        }
        let url = self.location.url().as_str();
        let whole = Arc::new(layout.whole(url)?);
        let tells = layout.change_feed && !touched.is_empty();
        let is_same = |known: &Rewritten| known.plan == plan && known.whole == whole && known.changes.is_some() == tells;
        let known = self.rewritten.take().filter(is_same);
        let rewritten = match known {
            Some(known) => known,
            None => {
                let files = rewrite(&self.location, &whole, &self.settings, &rewrites).await?.files;
                self.made.extend(files.iter().map(|file| file.path.clone()));
                let changes = match tells {
                    true => Some(self.tell(&layout.with_change_type(url)?, &targets, &verdict).await?),
                    false => None,
                };
                self.made.extend(changes.iter().flatten().map(|file| file.path.clone()));
                Rewritten { plan, whole, files, changes }
            }
        };
        let untouched = self.files.iter().enumerate().filter(|(file, _)| !verdict.own.contains_key(file)).map(|(_, file)| file.clone());
        let written: u64 = rewritten.files.iter().map(|file| file.rows).sum();
        let merged = Merged {
            keys: self.keys.clone(),
            added: untouched.chain(rewritten.files.iter().cloned()).collect(),
            changes: rewritten.changes.clone().unwrap_or_default(),
            removed: touched.iter().map(|(target, _)| target.remove(now_ms)).collect(),
            source_rows: self.winners.rows(),
            inserted: verdict.inserted,
            updated: verdict.updated,
            collapsed: replaced_rows - verdict.updated,
            copied: written - own_rows,
        };
        self.rewritten = Some(rewritten);
        Ok(merged)
    }

    /// Writes the change files.
    async fn tell(&self, layout: &Layout, targets: &[Target], verdict: &Verdict) -> Result<Vec<WrittenFile>> {
        let mut told: Vec<Told<'_>> = Vec::new();
        for ((target, replaced), deleted) in targets.iter().zip(&verdict.replaced).zip(&verdict.again) {
            if !replaced.is_empty() {
                told.push(Told::Table { file: &target.file, replaced, deleted });
            }
        }
        let of = |rows: &'_ winners::Dropped, file: usize| rows.get(&file).cloned().unwrap_or_default();
        let own: Vec<(Vec<u64>, Vec<u64>)> =
            (0..self.own.len()).map(|file| (of(&verdict.own, file), of(&verdict.replacing, file))).collect();
        told.extend(self.own.iter().zip(&own).map(|(file, (dropped, updated))| Told::Batch { file, dropped, updated }));
        changes::write(&self.location, &Arc::new(layout.clone()), &self.settings, &told).await
    }

    /// Looks through the files that were not seen in an attempt before, some at once.
    async fn look_through(&self, targets: &[Target], layout: &Layout) -> Result<Vec<(String, Looked)>> {
        let mut running = FuturesUnordered::new();
        let mut done = Vec::new();
        for target in targets.iter().filter(|target| !self.looked.contains_key(&target.identity())) {
            if running.len() >= FILES_AT_ONCE {
                done.extend(running.try_next().await?);
            }
            running.push(self.look(target, layout));
        }
        while let Some(looked) = running.try_next().await? {
            done.push(looked);
        }
        Ok(done)
    }

    async fn look(&self, target: &Target, layout: &Layout) -> Result<(String, Looked)> {
        let deleted = target.deleted(&self.location).await?;
        let mut rows = read::open(&self.location, &target.file, &self.fields, layout).await?;
        let mut hits = Vec::new();
        while let Some(slice) = rows.next().await? {
            let encoded = self.encoder.encode(&slice.columns)?;
            for at in 0..slice.rows {
                let row = slice.first_row + at as u64;
                let hit = encoded.key(at).and_then(|key| self.winners.look(row, key, encoded.order(at)));
                hits.extend(hit.filter(|hit| deleted.binary_search(&hit.row).is_err()));
            }
        }
        Ok((target.identity(), Looked { hits, deleted }))
    }

    /// The files of this batch that a commit of `merged` does not name, of every attempt.
    pub fn left_over(&self, merged: &Merged) -> Vec<String> {
        let named = |name: &str| merged.added.iter().chain(&merged.changes).any(|file| file.path == name);
        self.all_files().into_iter().filter(|name| !named(name)).collect()
    }

    /// Every file that this batch has written.
    pub fn all_files(&self) -> Vec<String> {
        self.files.iter().map(|file| file.path.clone()).chain(self.made.iter().cloned()).collect()
    }
}

impl Merged {
    /// What the log says was done, in Spark's form.
    pub fn parameters(&self) -> BTreeMap<&'static str, String> {
        let equal = self.keys.columns.iter().map(|name| format!("(t.{name} = s.{name})")).collect::<Vec<_>>().join(" AND ");
        let newer = self.keys.order.iter().map(|name| format!("(t.{name} IS NULL OR s.{name} >= t.{name})")).next();
        let matched = match newer {
            Some(predicate) => serde_json::json!([{"predicate": predicate, "actionType": "update"}]),
            None => serde_json::json!([{"actionType": "update"}]),
        };
        BTreeMap::from([
            ("predicate", serde_json::json!([equal]).to_string()),
            ("matchedPredicates", matched.to_string()),
            ("notMatchedPredicates", serde_json::json!([{"actionType": "insert"}]).to_string()),
            ("notMatchedBySourcePredicates", "[]".to_owned()),
        ])
    }

    /// The log's metrics, with the names that Spark's MERGE has for them.
    pub fn metrics(&self) -> BTreeMap<&'static str, String> {
        let added = self.added.iter().map(|file| file.size).sum::<u64>();
        let removed = self.removed.iter().map(|file| file.size).sum::<i64>();
        BTreeMap::from([
            ("numSourceRows", self.source_rows.to_string()),
            ("numTargetRowsInserted", self.inserted.to_string()),
            ("numTargetRowsUpdated", self.updated.to_string()),
            ("numTargetRowsDeleted", self.collapsed.to_string()),
            ("numTargetRowsCopied", self.copied.to_string()),
            ("numOutputRows", (self.inserted + self.updated + self.copied).to_string()),
            ("numTargetFilesAdded", self.added.len().to_string()),
            ("numTargetFilesRemoved", self.removed.len().to_string()),
            ("numTargetBytesAdded", added.to_string()),
            ("numTargetBytesRemoved", removed.to_string()),
        ])
    }
}

fn ambiguous(key: &str) -> Error {
    Error::config(
        "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
        format!(
            "the batch has several different rows with the key ({key}), and nothing says which of them is to be in the table; name the column whose greatest value wins in the sink's field upsertOrderBy"
        ),
    )
}
