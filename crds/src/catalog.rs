//! Catalogs: the locations that table names and `/Volumes/<catalog>/...` stand for.
//!
//! The one place that reads them, for the engine that opens locations and for
//! the operator that only looks at them. Pure: nothing is opened, parameters
//! are replaced already.

use std::borrow::Cow;

use crate::resource::CatalogSpec;

/// A name that the catalogs do not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogError {
    /// The error condition.
    pub condition: &'static str,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl CatalogError {
    fn new(condition: &'static str, message: impl Into<String>) -> Self {
        Self { condition, message: message.into() }
    }
}

/// A location as the user writes it; `/Volumes/<catalog>/...` goes through the catalogs.
pub fn location<'a>(catalogs: &[CatalogSpec], text: &'a str) -> Result<Cow<'a, str>, CatalogError> {
    let Some(rest) = text.strip_prefix("/Volumes/") else { return Ok(Cow::Borrowed(text)) };
    let (name, below) = rest.split_once('/').unwrap_or((rest, ""));
    let volumes = named(catalogs, name)?.volumes.as_deref().ok_or_else(|| {
        let message = format!("{text}: the catalog {name} has no volumes; add volumes: <location> to it");
        CatalogError::new("CATALOG_WITHOUT_VOLUMES", message)
    })?;
    Ok(Cow::Owned(format!("{}/{below}", volumes.trim_end_matches('/'))))
}

/// The one to three parts of a table's name; none where it is no name, such as a path. Each part becomes a folder's name.
pub fn table_parts(table: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = table.split('.').map(|part| part.trim_matches('`')).collect();
    (parts.len() <= 3 && parts.iter().all(|part| is_plain(part))).then_some(parts)
}

fn is_plain(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

/// Where `catalog.schema.table`, `schema.table` or `table` is, below the warehouse. Case does not matter in names of tables, as
/// in Spark's session catalog, so folders are in lower case.
pub fn table_location(catalogs: &[CatalogSpec], table: &str) -> Result<String, CatalogError> {
    let parts: Vec<&str> = table.split('.').map(|part| part.trim_matches('`')).collect();
    location_of_parts(catalogs, &parts).ok_or_else(|| not_a_name(table))?
}

/// The same of a name whose parts are known, without their quotes: a part with a dot in it is one part.
pub fn named_location(catalogs: &[CatalogSpec], parts: &[String]) -> Result<String, CatalogError> {
    let quoted = |part: &String| if is_plain(part) { part.clone() } else { format!("`{part}`") };
    let names: Vec<&str> = parts.iter().map(String::as_str).collect();
    location_of_parts(catalogs, &names).ok_or_else(|| not_a_name(&parts.iter().map(quoted).collect::<Vec<_>>().join(".")))?
}

fn not_a_name(table: &str) -> CatalogError {
    let message = format!("'{table}' is not a table name; write catalog.schema.table, of letters, digits, _ and -");
    CatalogError::new("INVALID_TABLE_NAME", message)
}

/// None where the parts are no name of a table.
fn location_of_parts(catalogs: &[CatalogSpec], parts: &[&str]) -> Option<Result<String, CatalogError>> {
    let are_plain = (1..=3).contains(&parts.len()) && parts.iter().all(|part| is_plain(part));
    are_plain.then(|| located(catalogs, parts))
}

fn located(catalogs: &[CatalogSpec], parts: &[&str]) -> Result<String, CatalogError> {
    let first = || {
        let message = "a table by name needs a catalog; add catalogs: [{name, warehouse}] to the spec";
        catalogs.first().ok_or_else(|| CatalogError::new("CATALOG_NOT_FOUND", message))
    };
    let (catalog, schema, name) = match *parts {
        [catalog, schema, name] => (named(catalogs, catalog)?, schema, name),
        [schema, name] => (first()?, schema, name),
        _ => (first()?, "default", parts.last().copied().unwrap_or_default()),
    };
    Ok(format!("{}/{}/{}", catalog.warehouse.trim_end_matches('/'), schema.to_lowercase(), name.to_lowercase()))
}

fn named<'a>(catalogs: &'a [CatalogSpec], name: &str) -> Result<&'a CatalogSpec, CatalogError> {
    catalogs.iter().find(|catalog| catalog.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let known: Vec<&str> = catalogs.iter().map(|catalog| catalog.name.as_str()).collect();
        CatalogError::new("CATALOG_NOT_FOUND", format!("there is no catalog {name}; the catalogs are [{}]", known.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn catalogs() -> Vec<CatalogSpec> {
        let catalogs =
            serde_json::json!([{"name": "main", "warehouse": "s3://w/", "volumes": "s3://v/"}, {"name": "disk", "warehouse": "/w"}]);
        serde_json::from_value(catalogs).unwrap()
    }

    #[test]
    fn volumes_go_through_their_catalog() {
        let catalogs = catalogs();
        for (text, expected) in
            [("/Volumes/main/s/c", "s3://v/s/c"), ("/Volumes/main", "s3://v/"), ("/data/c", "/data/c"), ("s3://c", "s3://c")]
        {
            assert_eq!(location(&catalogs, text).unwrap(), expected);
        }
        assert_eq!(location(&catalogs, "/Volumes/disk/x").unwrap_err().condition, "CATALOG_WITHOUT_VOLUMES");
        assert_eq!(location(&catalogs, "/Volumes/none/x").unwrap_err().message, "there is no catalog none; the catalogs are [main, disk]");
    }

    #[test]
    fn tables_are_below_a_warehouse() {
        let catalogs = catalogs();
        for (table, expected) in [("t", "s3://w/default/t"), ("s.t", "s3://w/s/t"), ("DISK.S.`T`", "/w/s/t")] {
            assert_eq!(table_location(&catalogs, table).unwrap(), expected);
        }
        for wrong in ["a.b.c.d", "", "main..t", "main.s.`../../t`", "delta.`/x`"] {
            assert_eq!(table_location(&catalogs, wrong).unwrap_err().condition, "INVALID_TABLE_NAME", "{wrong}");
        }
        assert_eq!(table_location(&[], "t").unwrap_err().condition, "CATALOG_NOT_FOUND");
        let parts = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        assert_eq!(named_location(&catalogs, &parts(&["disk", "S", "t"])).unwrap(), "/w/s/t");
        let error = named_location(&catalogs, &parts(&["main", "s.tbl"])).unwrap_err();
        assert!(error.condition == "INVALID_TABLE_NAME" && error.message.starts_with("'main.`s.tbl`' is not"), "{error:?}");
    }
}
