//! The reference page of options and settings, made from the tables.

use super::formats::{FORMATS, Format};
use super::kafka_client::{Client, Mapping, PROPERTIES};
use super::row::{Effect, OptionRow, Role};
use crate::conf;

/// The page `docs/options.md`.
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "<!-- Generated from crds/src/options and crds/src/conf by `cargo xtask codegen`. Do not edit. -->\n\n\
         # Options and settings\n\n\
         Names are compared without regard to case, every value is a string in quotes, and an option that is not listed is refused by `weir check`. \
         \"Origin\" is the class in Spark whose meaning applies.\n",
    );
    for format in FORMATS {
        page.push_str(&format!("\n## {}\n", format.as_str()));
        for role in [Role::Source, Role::Table, Role::Sink] {
            if format.can_be(role) {
                format_section(&mut page, format, role);
            }
        }
    }
    client_section(&mut page);
    conf_section(&mut page);
    page
}

fn format_section(page: &mut String, format: Format, role: Role) {
    page.push_str(&format!("\n### {} as a {}\n\n", format.as_str(), role.as_str()));
    if format.is_files() && role != Role::Sink {
        let row_index = if format == Format::Parquet { "`row_index`, " } else { "" };
        page.push_str(&format!(
            "Rows have the hidden column `_metadata`, which `*` leaves out: a struct of `file_path`, `file_name`, `file_size`, `file_block_start`, \
             `file_block_length`, {row_index}`file_modification_time`. Write `SELECT *, _metadata.file_name FROM ...`.\n\n"
        ));
    }
    let rows: Vec<&OptionRow> = format.rows(role).collect();
    if rows.is_empty() {
        page.push_str("No options.\n");
        return;
    }
    page.push_str("| option | value | default | meaning | origin |\n|---|---|---|---|---|\n");
    for row in rows {
        let default = match (row.required, row.default) {
            (true, _) => "required".to_owned(),
            (false, Some("")) => "empty".to_owned(),
            (false, Some(default)) => code(default),
            (false, None) => String::new(),
        };
        let meaning = match row.effect {
            Effect::Obeyed => row.doc.to_owned(),
            Effect::Ignored(why) => format!("{} No effect: {why}.", row.doc),
            Effect::Refused(why) => format!("Refused: {why}."),
        };
        let aliases: Vec<String> = row.aliases.iter().map(|alias| code(alias)).collect();
        let name = if aliases.is_empty() { code(row.name) } else { format!("{}, {}", code(row.name), aliases.join(", ")) };
        let origin = row.origin.rsplit('.').next().unwrap_or(row.origin);
        page.push_str(&format!("| {name} | {} | {default} | {} | {origin} |\n", cell(&row.kind.in_words()), cell(&meaning)));
    }
}

fn client_section(page: &mut String) {
    page.push_str(
        "\n## Settings of the Kafka client\n\n\
         Written as `kafka.<name>` with the names of the Java client, translated to librdkafka.\n\n\
         | setting | client | becomes |\n|---|---|---|\n",
    );
    for property in PROPERTIES {
        let client = match property.client {
            Client::Both => "both",
            Client::Consumer => "source",
            Client::Producer => "sink",
        };
        let becomes = match property.mapping {
            Mapping::Same => "the same".to_owned(),
            Mapping::Renamed(other) | Mapping::Words(other, _) if other == property.name => "the same".to_owned(),
            Mapping::Renamed(other) | Mapping::Words(other, _) => code(other),
            Mapping::Number(other, least, most) => format!("{}, {least} to {most}", code(other)),
            Mapping::Kibibytes(other) => format!("{}, in KiB", code(other)),
            Mapping::Harmless(why) => format!("nothing, with a warning: {why}"),
            Mapping::Refused(why) => format!("refused: {why}"),
            Mapping::NoCounterpart(remedy) => format!("refused: {remedy}"),
            Mapping::Special(how) => how.to_owned(),
        };
        let secret = if property.secret { "; secret, only from `optionsFrom`" } else { "" };
        page.push_str(&format!("| {} | {client} | {}{secret} |\n", code(property.name), cell(&becomes)));
    }
}

fn conf_section(page: &mut String) {
    page.push_str("\n## Settings of a job (`spec.conf`)\n\n| setting | value | default | meaning |\n|---|---|---|---|\n");
    for row in conf::rows() {
        let default = match row.default {
            "" => String::new(),
            default => code(default),
        };
        page.push_str(&format!("| {} | {} | {default} | {} |\n", code(row.name), cell(&row.kind.in_words()), cell(row.doc)));
    }
}

fn code(text: &str) -> String {
    format!("`{}`", cell(text))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_every_option_once_per_role() {
        let page = reference_markdown();
        for format in FORMATS {
            for role in [Role::Source, Role::Table, Role::Sink] {
                let mut seen = std::collections::BTreeSet::new();
                for row in format.rows(role).filter(|_| format.can_be(role)) {
                    assert!(page.contains(row.name), "{}", row.name);
                    assert!(seen.insert(row.name.to_ascii_lowercase()), "{} {:?}: {} twice", format.as_str(), role, row.name);
                    if let Some(default) = row.default {
                        assert!(row.kind.parse(default).is_ok(), "{}: default {default}", row.name);
                    }
                }
            }
        }
    }
}
