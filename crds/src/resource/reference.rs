//! The reference page of the manifest's fields, made from the field table.
//!
//! One table per object, in the order of the schema; below it the rules that
//! the API server and `weir check` hold the object to. Options and settings
//! have a page of their own (`options::reference_markdown`).

use serde_json::Value;

use super::fields::{FieldRow, field_table};
use super::schema::resource_schema;

/// The page `docs/manifest.md`.
pub fn manifest_markdown() -> String {
    let mut page = String::from(
        "<!-- Generated from crds/src/resource by `cargo xtask codegen`. Do not edit. -->\n\n\
         # Fields of a StreamingJob\n\n\
         `apiVersion: weir.dev/v1alpha1`, `kind: StreamingJob`, `metadata` with `name` and, if you like, `namespace`, `labels` and `annotations`; the rest \
         is `spec`. A field that is not listed is refused. Values of options and of `spec.conf` are strings in quotes; their names are in \
         [options.md](options.md). `weir check` says what is wrong with a manifest, with line and column.\n\n\
         \"Edit\" is what changing the field does to a running job: `none` reaches the running tasks without a restart, `task` restarts the task that \
         the field stands in, `run` ends the run and the next one begins at once, `self` acts by itself as its text says.\n",
    );
    let rows = field_table();
    let mut objects = vec!["spec".to_owned()];
    objects.extend(rows.iter().map(|row| row.path.clone()).filter(|path| rows.iter().any(|row| parent(row) == path)));
    for object in &objects {
        page.push_str(&format!("\n## {object}\n\n| field | type | default | edit | meaning |\n|---|---|---|---|---|\n"));
        for row in rows.iter().filter(|row| parent(row) == object) {
            let name = row.path[object.len() + 1..].trim_end_matches("[]");
            let kind = if objects.contains(&row.path) { format!("[{}](#{})", cell(&row.kind), anchor(&row.path)) } else { cell(&row.kind) };
            let default = match (&row.default, row.required) {
                (Some(value), _) => format!("`{}`", cell(&plain(value))),
                (None, true) => "required".to_owned(),
                (None, false) => String::new(),
            };
            page.push_str(&format!("| `{name}` | {kind} | {default} | {} | {} |\n", row.disrupts.as_str(), cell(&row.doc)));
        }
        let rules = rules_of(object);
        if !rules.is_empty() {
            page.push_str("\nRules:\n");
            page.extend(rules.iter().map(|rule| format!("- {rule}\n")));
        }
    }
    page
}

fn parent(row: &FieldRow) -> &str {
    row.path.rsplit_once('.').map_or("", |(parent, _)| parent)
}

/// The messages of the object's rules; each is a sentence for people.
fn rules_of(object: &str) -> Vec<String> {
    let steps = object.split('.').skip(1);
    let schema = steps.fold(resource_schema(), |schema, step| match step.strip_suffix("[]") {
        Some(name) => &schema["properties"][name]["items"],
        None => &schema["properties"][step],
    });
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    rules.filter_map(|rule| Some(rule["message"].as_str()?.replace('\n', " "))).collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// As the renderers of Markdown make them of headings.
fn anchor(heading: &str) -> String {
    heading.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect::<String>().to_lowercase()
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_one_row_and_every_link_a_section() {
        let page = manifest_markdown();
        let rows = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, field_table().len());
        for link in page.split("](#").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(page.lines().any(|line| line.strip_prefix("## ").is_some_and(|heading| anchor(heading) == link)), "{link}");
        }
        assert!(page.contains("| `initialDelay` | duration | `10s` | none |"), "{page}");
        assert!(page.contains("| `sql` | string, at most 32768 characters | required | task |"), "{page}");
    }
}
