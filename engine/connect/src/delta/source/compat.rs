//! Whether the columns that a stream reads fit another version of its table.
//!
//! Delta's rules for streaming reads without a schema log
//! (`checkReadIncompatibleSchemaChanges`): the columns of the version must be
//! among those that are read, with the same types; where they are more, a
//! restart heals it, since a stream reads the columns that its table has when
//! it starts. Renamed and dropped columns under column mapping, and other
//! partition columns, cannot be healed. Decides only.

use std::collections::BTreeMap;

use deltalake_core::kernel::{DataType, MetadataValue, StructField, StructType};
use weir_core::Result;

use crate::delta::action::MetaData;
use crate::delta::state::parse_schema;

/// A version's metadata as far as reading its files goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    schema: StructType,
    partition_by: Vec<String>,
    is_mapped: bool,
}

/// How another version differs from what is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Nothing that matters.
    None,
    /// It has more columns.
    Additive,
    /// A column was renamed or dropped under column mapping; the sentence says which.
    Mapping(String),
    /// Its files cannot be read with these columns; the sentence says why.
    Incompatible(String),
}

impl Columns {
    /// Those of some metadata.
    pub fn of(metadata: &MetaData) -> Result<Self> {
        let mode = metadata.configuration.get("delta.columnMapping.mode");
        Ok(Self {
            schema: parse_schema(metadata)?,
            partition_by: metadata.partition_columns.clone(),
            is_mapped: mode.is_some_and(|mode| !mode.eq_ignore_ascii_case("none")),
        })
    }

    /// The partition columns.
    pub fn partition_by(&self) -> &[String] {
        &self.partition_by
    }

    /// Whether columns have physical names of their own.
    pub fn is_mapped(&self) -> bool {
        self.is_mapped
    }

    /// What is different in `other`, which is the table's older or newer version.
    pub fn difference(&self, other: &Self, age: Age) -> Difference {
        if self.is_mapped || other.is_mapped {
            let (old, new) = match age {
                Age::Older => (other, self),
                Age::Newer => (self, other),
            };
            if let Some(change) = mapping_change(old, new) {
                return Difference::Mapping(change);
            }
        }
        if self.partition_by != other.partition_by {
            return Difference::Incompatible(format!(
                "its partition columns are ({}), not ({})",
                other.partition_by.join(", "),
                self.partition_by.join(", ")
            ));
        }
        match (why_unreadable(&other.schema, &self.schema), age) {
            (None, _) => Difference::None,
            (Some(_), Age::Newer) if why_unreadable(&self.schema, &other.schema).is_none() => Difference::Additive,
            (Some(why), _) => Difference::Incompatible(why),
        }
    }
}

/// Where the other version stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// Before the one whose columns are read.
    Older,
    /// After it.
    Newer,
}

/// Why files of a table with the columns `existing` cannot be read as `read` (`SchemaUtils.isReadCompatible`).
fn why_unreadable(existing: &StructType, read: &StructType) -> Option<String> {
    let named = |schema: &StructType, name: &str| schema.fields().find(|f| f.name().eq_ignore_ascii_case(name)).cloned();
    if let Some(field) = existing.fields().find(|field| named(read, field.name()).is_none()) {
        return Some(format!("it has the column `{}`, which is not read", field.name()));
    }
    read.fields().find_map(|field| {
        let there = named(existing, field.name())?;
        if there.name() != field.name() {
            return Some(format!("its column `{}` is read as `{}`", there.name(), field.name()));
        }
        if there.is_nullable() && !field.is_nullable() {
            return Some(format!("its column `{}` may be null", field.name()));
        }
        why_other_type(there.data_type(), field.data_type()).map(|why| format!("in its column `{}`: {why}", field.name()))
    })
}

fn why_other_type(existing: &DataType, read: &DataType) -> Option<String> {
    match (existing, read) {
        (DataType::Struct(existing), DataType::Struct(read)) => why_unreadable(existing, read),
        (DataType::Array(existing), DataType::Array(read)) if existing.contains_null() && !read.contains_null() => {
            Some("its elements may be null".to_owned())
        }
        (DataType::Array(existing), DataType::Array(read)) => why_other_type(existing.element_type(), read.element_type()),
        (DataType::Map(existing), DataType::Map(read)) => {
            why_other_type(existing.key_type(), read.key_type()).or_else(|| why_other_type(existing.value_type(), read.value_type()))
        }
        (existing, read) if existing == read => None,
        (existing, read) => Some(format!("the type is {existing}, not {read}")),
    }
}

/// The first column that was renamed or dropped, by physical names; a column of a table without mapping has its own name.
fn mapping_change(old: &Columns, new: &Columns) -> Option<String> {
    if old.is_mapped && !new.is_mapped {
        return Some("column mapping was turned off".to_owned());
    }
    let (before, after) = (physical(&old.schema), physical(&new.schema));
    before.iter().find_map(|(path, name)| match after.get(path) {
        None => Some(format!("the column `{name}` was dropped")),
        Some(now) if now != name => Some(format!("the column `{name}` was renamed to `{now}`")),
        Some(_) => None,
    })
}

/// Logical paths by physical ones.
fn physical(schema: &StructType) -> BTreeMap<Vec<String>, String> {
    let mut found = BTreeMap::new();
    gather(schema, &[], "", &mut found);
    found
}

fn gather(schema: &StructType, above: &[String], parent: &str, found: &mut BTreeMap<Vec<String>, String>) {
    for field in schema.fields() {
        let mut path = above.to_vec();
        path.push(physical_name(field));
        let name = if parent.is_empty() { field.name().clone() } else { format!("{parent}.{}", field.name()) };
        nested(field.data_type(), &path, &name, found);
        found.insert(path, name);
    }
}

fn nested(data_type: &DataType, path: &[String], name: &str, found: &mut BTreeMap<Vec<String>, String>) {
    let step = |part: &str| [path, &[part.to_owned()]].concat();
    match data_type {
        DataType::Struct(fields) => gather(fields, path, name, found),
        DataType::Array(array) => nested(array.element_type(), &step("element"), name, found),
        DataType::Map(map) => {
            nested(map.key_type(), &step("key"), name, found);
            nested(map.value_type(), &step("value"), name, found);
        }
        _ => {}
    }
}

fn physical_name(field: &StructField) -> String {
    match field.metadata.get("delta.columnMapping.physicalName") {
        Some(MetadataValue::String(name)) => name.clone(),
        _ => field.name().clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn columns(fields: &[(&str, DataType, &str)], is_mapped: bool) -> Columns {
        let field = |(name, data_type, physical): &(&str, DataType, &str)| {
            let field = StructField::nullable(*name, data_type.clone());
            if physical.is_empty() { field } else { field.with_metadata([("delta.columnMapping.physicalName", *physical)]) }
        };
        Columns { schema: StructType::try_new(fields.iter().map(field)).unwrap(), partition_by: Vec::new(), is_mapped }
    }

    fn plain(fields: &[(&str, DataType)]) -> Columns {
        columns(&fields.iter().map(|(name, data_type)| (*name, data_type.clone(), "")).collect::<Vec<_>>(), false)
    }

    const K: (&str, DataType) = ("k", DataType::STRING);
    const V: (&str, DataType) = ("v", DataType::INTEGER);

    #[test]
    fn more_columns_are_additive_only_when_they_come_later() {
        let (less, more) = (plain(&[K]), plain(&[K, V]));
        assert_eq!(less.difference(&less, Age::Newer), Difference::None);
        assert_eq!(less.difference(&more, Age::Newer), Difference::Additive);
        assert_eq!(more.difference(&less, Age::Older), Difference::None, "columns that came since are null in old files");
        assert!(matches!(less.difference(&more, Age::Older), Difference::Incompatible(_)), "a column that was dropped since");
        let inner = |fields: &[(&str, DataType)]| ("s", DataType::from(plain(fields).schema));
        assert_eq!(plain(&[inner(&[K])]).difference(&plain(&[inner(&[K, V])]), Age::Newer), Difference::Additive);
    }

    #[test]
    fn other_types_and_partitions_are_incompatible() {
        let wider = plain(&[K, ("v", DataType::LONG)]);
        let Difference::Incompatible(why) = plain(&[K, V]).difference(&wider, Age::Newer) else { panic!("the type changed") };
        assert!(why.contains("`v`") && why.contains("long"), "{why}");
        assert!(matches!(plain(&[K]).difference(&plain(&[("K", DataType::STRING)]), Age::Newer), Difference::Incompatible(_)));
        let folded = Columns { partition_by: vec!["k".to_owned()], ..plain(&[K, V]) };
        assert!(matches!(plain(&[K, V]).difference(&folded, Age::Newer), Difference::Incompatible(why) if why.contains("(k)")));
    }

    #[test]
    fn columns_are_followed_by_their_physical_names() {
        let before = plain(&[K, V]);
        let upgraded = columns(&[("k", DataType::STRING, "k"), ("v", DataType::INTEGER, "v")], true);
        let renamed = columns(&[("k", DataType::STRING, "k"), ("val", DataType::INTEGER, "v")], true);
        let dropped = columns(&[("k", DataType::STRING, "k")], true);
        assert_eq!(upgraded.difference(&before, Age::Older), Difference::None);
        let mapping = |why: &str| Difference::Mapping(why.to_owned());
        assert_eq!(renamed.difference(&upgraded, Age::Older), mapping("the column `v` was renamed to `val`"), "s07");
        assert_eq!(upgraded.difference(&renamed, Age::Newer), mapping("the column `v` was renamed to `val`"));
        assert_eq!(renamed.difference(&before, Age::Older), mapping("the column `v` was renamed to `val`"));
        assert_eq!(dropped.difference(&upgraded, Age::Older), mapping("the column `v` was dropped"));
        assert_eq!(upgraded.difference(&before, Age::Newer), mapping("column mapping was turned off"));
    }
}
