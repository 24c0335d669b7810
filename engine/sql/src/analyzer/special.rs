//! Function calls and the forms that have syntax of their own.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, CeilFloorKind, DuplicateTreatment, Expr as Sql, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Subscript,
    TrimWhereField, ValueWithSpan,
};
use weir_core::Error;
use weir_core::columns::HIDDEN_KEY;

use super::case::negation;
use super::expr::Cx;
use super::lambda::as_lambda;
use super::scope::Visibility;
use super::star::Star;
use super::window::needs_over;
use super::{Analyzer, Finding, Result, ScopeCol, Table, Typed, generate};
use crate::error::placed;
use crate::functions;
use crate::parser::wrong;
use crate::planned::constant;
use crate::udf::{Rows, downcast};

/// Functions whose first argument may be a unit written as a bare word.
const UNIT_FIRST: &[&str] = &["timestampadd", "timestampdiff", "dateadd", "date_add", "datediff", "date_diff", "timediff"];

impl Analyzer<'_> {
    /// A function call.
    pub(super) fn function(&self, function: &Function, cx: &Cx) -> Result<Typed> {
        let shown = function.name.to_string();
        let name = shown.trim_matches('`').to_ascii_lowercase();
        if let Some(over) = &function.over {
            return self.window_call(&name, function, over, cx);
        }
        if needs_over(&name) {
            return Err(Error::config(
                "WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE",
                format!("the window function {name}() requires an OVER clause; write {name}(..) OVER (PARTITION BY .. ORDER BY ..)"),
            ));
        }
        if generate::NAMES.contains(&name.as_str()) {
            return Err(Error::config(
                "UNSUPPORTED_GENERATOR.NESTED_IN_EXPRESSIONS",
                format!("the generator {name} can only stand alone in a select list or in LATERAL VIEW; put it there in a subquery"),
            ));
        }
        if name == "identifier" {
            return self.name(&self.identifier(&self.plain_args(function, cx)?)?, cx);
        }
        let lambdas = match &function.args {
            FunctionArguments::List(list) => {
                list.args.iter().any(|a| matches!(a, FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) if as_lambda(e).is_some()))
            }
            _ => false,
        };
        if lambdas {
            let args = raw_args(function)?;
            return functions::higher_order::build(self, &name, &args, cx).unwrap_or_else(|| Err(unresolved_routine(&name)));
        }
        if super::aggregate::is_aggregate(&name) {
            return self.aggregate_call(&name, function, cx);
        }
        if function.filter.is_some() {
            return Err(Error::config(
                "INVALID_SQL_SYNTAX.UNSUPPORTED_FUNCTION_NAME",
                format!("FILTER needs an aggregate function, {name} is none; filter with WHERE, or with CASE WHEN"),
            ));
        }
        if name == "session_window" {
            // Only a stream can have sessions, and the checks refuse the plan; its type is all that is needed.
            if !self.catalog.tables.iter().any(|t| t.stream.is_some()) {
                return Err(super::from::unsupported("session_window", "use window(..) or compare lag(..) where the table is read"));
            }
            self.found(Finding::SessionWindow);
            let args = self.plain_args(function, cx)?;
            let time = args.into_iter().next().ok_or_else(|| functions::args::wrong_count(&name, 0, "2"))?;
            let time = self.cast(time, &crate::types::timestamp())?;
            return self.build_function("named_struct", vec![Typed::string("start"), time.clone(), Typed::string("end"), time]);
        }
        let args = self.plain_args(function, cx)?;
        if name == "input_file_name" && args.is_empty() {
            return self.input_file_name(cx);
        }
        self.build_function(&name, args)
    }

    /// The file that a row came from: what its source has in `_metadata`. Rows that come from no file have an empty text, as in Spark.
    fn input_file_name(&self, cx: &Cx) -> Result<Typed> {
        let of_files = |col: &&ScopeCol| col.visibility == Visibility::Metadata && col.name == "_metadata";
        let has_files = |table: &Table| table.provider.schema().fields().iter().any(|field| field.metadata().contains_key(HIDDEN_KEY));
        match cx.scope.cols.iter().filter(of_files).collect::<Vec<_>>().as_slice() {
            [file] => {
                let path = self.field(file.typed(), "file_path")?;
                // Spark writes a local path with an empty host here and without one in `_metadata`.
                let with_host = |path: &str| match path.strip_prefix("file:/") {
                    Some(rest) if !rest.starts_with('/') => format!("file:///{rest}"),
                    _ => path.to_owned(),
                };
                let call = self.call("input_file_name", "", DataType::Utf8, &[path], move |rows: Rows| {
                    let paths: &StringArray = downcast(&rows.args[0])?;
                    Ok(Arc::new(paths.iter().map(|path| path.map(with_host)).collect::<StringArray>()) as ArrayRef)
                });
                Ok(call.named("input_file_name()"))
            }
            [] if !self.catalog.tables.iter().any(has_files) => Ok(Typed::string("").named("input_file_name()")),
            [] => Err(Error::config(
                "WEIR_INPUT_FILE_NOT_KNOWN",
                "input_file_name() is known only where the files are read; select input_file_name() or _metadata.file_path AS file in the \
                 query whose FROM names the source",
            )),
            _ => Err(Error::config(
                "MULTI_SOURCES_UNSUPPORTED_FOR_EXPRESSION",
                "input_file_name() does not support more than one source; write _metadata.file_path with the table's name before it",
            )),
        }
    }

    /// The name that `IDENTIFIER('a.b')` stands for.
    pub(super) fn identifier(&self, args: &[Typed]) -> Result<Vec<String>> {
        let [text] = args else { return Err(functions::args::wrong_count("identifier", args.len(), "1")) };
        let Some(ScalarValue::Utf8(Some(text))) = constant(&text.expr) else {
            return Err(Error::config(
                "NOT_A_CONSTANT_STRING.NOT_CONSTANT",
                format!("the expression \"{}\" of IDENTIFIER must be a constant string; write one, such as IDENTIFIER('t.a')", text.name),
            ));
        };
        match crate::parser::parse_expression(&text)? {
            Sql::Identifier(name) => Ok(vec![name.value]),
            Sql::CompoundIdentifier(path) => Ok(super::names::idents(&path)),
            _ => Err(wrong(&format!("`{text}` in IDENTIFIER is no name"))),
        }
    }

    /// A function by name with analysed arguments.
    pub(crate) fn build_function(&self, name: &str, args: Vec<Typed>) -> Result<Typed> {
        if name == "monotonically_increasing_id" {
            self.found(Finding::MonotonicId);
        }
        let plain = super::names::function(name, &args);
        let value = functions::build(self, name, args).unwrap_or_else(|| Err(unresolved_routine(name)))?;
        // Functions that name themselves otherwise have done so.
        Ok(if value.name.starts_with("\u{0}") {
            let name = value.name.trim_start_matches('\u{0}').to_owned();
            value.named(name)
        } else if functions::keeps_name(name) {
            value
        } else {
            value.named(plain)
        })
    }

    /// Analysed arguments; a bare unit becomes a string.
    pub(super) fn plain_args(&self, function: &Function, cx: &Cx) -> Result<Vec<Typed>> {
        let name = function.name.to_string().to_ascii_lowercase();
        let raw = raw_args(function)?;
        let with_unit = raw.len() == 3 && UNIT_FIRST.contains(&name.as_str());
        match raw.split_first() {
            Some((Sql::Identifier(unit), rest)) if with_unit => {
                let mut args = self.arguments(rest.iter().copied(), cx)?;
                args.insert(0, Typed::string(unit.value.to_uppercase()));
                Ok(args)
            }
            _ => self.arguments(raw, cx),
        }
    }

    /// Forms with syntax of their own.
    pub(super) fn special(&self, sql: &Sql, cx: &Cx) -> Result<Typed> {
        match sql {
            Sql::Like { negated, any: false, expr, pattern, escape_char } => {
                self.pattern("like", expr, pattern, escape_char.as_ref(), *negated, cx)
            }
            Sql::ILike { negated, any: false, expr, pattern, escape_char } => {
                self.pattern("ilike", expr, pattern, escape_char.as_ref(), *negated, cx)
            }
            Sql::RLike { negated, expr, pattern, .. } => self.pattern("rlike", expr, pattern, None, *negated, cx),
            Sql::Extract { field, expr, .. } => {
                let field = Typed::string(field.to_string());
                let value = self.expr(expr, cx)?;
                let name = format!("extract({} FROM {})", field.name, value.name);
                Ok(self.build_function("date_part", vec![field, value])?.named(name))
            }
            Sql::Ceil { expr, field } | Sql::Floor { expr, field } => {
                let name = if matches!(sql, Sql::Ceil { .. }) { "ceil" } else { "floor" };
                let mut args = vec![self.expr(expr, cx)?];
                if let CeilFloorKind::Scale(scale) = field {
                    args.push(super::literal::value(&scale.value)?);
                }
                self.build_function(name, args)
            }
            Sql::Position { expr, r#in } => {
                let args = vec![self.expr(expr, cx)?, self.expr(r#in, cx)?];
                self.build_function("locate", args)
            }
            Sql::Substring { expr, substring_from, substring_for, .. } => {
                let mut args = vec![self.expr(expr, cx)?];
                args.push(match substring_from {
                    Some(from) => self.expr(from, cx)?,
                    None => Typed::int(1),
                });
                if let Some(length) = substring_for {
                    args.push(self.expr(length, cx)?);
                }
                self.build_function("substring", args)
            }
            Sql::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                    _ => "trim",
                };
                let mut args = vec![self.expr(expr, cx)?];
                if let Some(what) = trim_what {
                    args.push(self.expr(what, cx)?);
                    let side = match name {
                        "ltrim" => "LEADING",
                        "rtrim" => "TRAILING",
                        _ => "BOTH",
                    };
                    let shown = format!("TRIM({side} {} FROM {})", args[1].name, args[0].name);
                    return Ok(self.build_function(&format!("{name}_chars"), args)?.named(shown));
                }
                if let Some(characters) = trim_characters {
                    for c in characters {
                        args.push(self.expr(c, cx)?);
                    }
                }
                self.build_function(name, args)
            }
            Sql::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut args = vec![self.expr(expr, cx)?, self.expr(overlay_what, cx)?, self.expr(overlay_from, cx)?];
                if let Some(length) = overlay_for {
                    args.push(self.expr(length, cx)?);
                }
                self.build_function("overlay", args)
            }
            Sql::Struct { values, fields } if fields.is_empty() => {
                let (mut args, mut shown) = (Vec::new(), Vec::new());
                for (index, value) in values.iter().enumerate() {
                    let (sql, name) = match value {
                        Sql::Named { expr, name } => (expr.as_ref(), Some(name.value.clone())),
                        sql => (sql, last_name(sql)),
                    };
                    if let Some(star) = Star::of_argument(sql) {
                        for value in placed(star.and_then(|star| self.star_of(&star, cx)), sql)? {
                            shown.push(value.name.clone());
                            args.extend([Typed::string(value.name.clone()), value]);
                        }
                        continue;
                    }
                    let named = matches!(value, Sql::Named { .. });
                    let value = self.expr(sql, cx)?;
                    let name = name.unwrap_or_else(|| format!("col{}", index + 1));
                    shown.push(if named { format!("{} AS {name}", value.name) } else { value.name.clone() });
                    args.extend([Typed::string(name), value]);
                }
                if args.is_empty() {
                    return Err(functions::args::wrong_count("struct", 0, "at least 1"));
                }
                Ok(self.build_function("named_struct", args)?.named(format!("struct({})", shown.join(", "))))
            }
            Sql::Array(array) => {
                let args = self.arguments(&array.elem, cx)?;
                self.build_function("array", args)
            }
            Sql::Tuple(parts) => {
                let mut args = Vec::new();
                for (index, part) in parts.iter().enumerate() {
                    args.push(Typed::string(format!("col{}", index + 1)));
                    args.push(self.expr(part, cx)?);
                }
                self.build_function("named_struct", args)
            }
            Sql::Collate { expr, collation } => {
                let args = vec![self.expr(expr, cx)?, Typed::string(collation.to_string())];
                self.build_function("collate", args)
            }
            Sql::JsonAccess { .. } => Err(crate::ddl::no_variant(&format!("the path in `{sql}`"))),
            Sql::Convert { .. } | Sql::AtTimeZone { .. } => Err(wrong(&format!("`{sql}` is no expression of Spark SQL"))),
            other => Err(wrong(&format!("`{other}` is not supported in {}", cx.clause))),
        }
    }

    fn pattern(&self, name: &str, expr: &Sql, pattern: &Sql, escape: Option<&ValueWithSpan>, negated: bool, cx: &Cx) -> Result<Typed> {
        let mut args = vec![self.expr(expr, cx)?, self.expr(pattern, cx)?];
        let mut shown = match name {
            "like" => format!("{} LIKE {}", args[0].name, args[1].name),
            "ilike" => format!("ilike({}, {})", args[0].name, args[1].name),
            _ => format!("RLIKE({}, {})", args[0].name, args[1].name),
        };
        if let Some(escape) = escape {
            let escape = escape.value.clone().into_string().unwrap_or_default();
            shown.push_str(&format!(" ESCAPE '{escape}'"));
            args.push(Typed::string(escape));
        }
        let value = self.build_function(name, args)?.named(shown);
        debug_assert_eq!(value.ty, DataType::Boolean);
        Ok(if negated { negation(value) } else { value })
    }
}

/// The name that a path of names ends in; Spark names the field of a struct after it.
fn last_name(sql: &Sql) -> Option<String> {
    match sql {
        Sql::Identifier(ident) => Some(ident.value.clone()),
        Sql::CompoundIdentifier(path) => path.last().map(|ident| ident.value.clone()),
        Sql::CompoundFieldAccess { access_chain, .. } => match access_chain.last()? {
            AccessExpr::Dot(Sql::Identifier(ident)) => Some(ident.value.clone()),
            AccessExpr::Subscript(Subscript::Index { index: Sql::Value(value) }) => value.value.clone().into_string(),
            _ => None,
        },
        _ => None,
    }
}

/// The arguments as syntax.
pub fn raw_args(function: &Function) -> Result<Vec<&Sql>> {
    match &function.args {
        FunctionArguments::None => Ok(vec![]),
        FunctionArguments::Subquery(_) => Err(super::from::unsupported("a subquery as an argument", "join it")),
        FunctionArguments::List(list) => {
            if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
                return Err(Error::config(
                    "INVALID_SQL_SYNTAX.FUNCTION_WITH_DISTINCT",
                    format!("{} is no aggregate function and cannot take DISTINCT; leave DISTINCT out", function.name),
                ));
            }
            list.args
                .iter()
                .map(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Ok(e),
                    other => Err(wrong(&format!("unexpected `{other}` in {}", function.name))),
                })
                .collect()
        }
    }
}

/// The error for a function that does not exist, with the nearest name.
pub fn unresolved_routine(name: &str) -> Error {
    if name.contains("variant") || matches!(name, "parse_json" | "try_parse_json") {
        return crate::ddl::no_variant(&format!("the function {name}"));
    }
    let nearest = functions::names().into_iter().map(|n| (strsim::damerau_levenshtein(name, &n), n)).min();
    let hint = match nearest {
        Some((distance, nearest)) if distance <= name.len().div_ceil(2) => format!("; did you mean `{nearest}`?"),
        _ => "; it is none of the built-in functions of Spark SQL that Weir has: write it with those, or compute it where the data is made"
            .to_owned(),
    };
    Error::config("UNRESOLVED_ROUTINE", format!("the function `{name}` cannot be found{hint}"))
}
