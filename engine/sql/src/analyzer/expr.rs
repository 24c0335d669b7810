//! Expressions: the walk over the syntax tree.
//!
//! Each arm resolves its parts, lets `coerce` and `binary` decide the types,
//! and returns a `Typed`. Functions go to `functions`, keyword forms
//! (EXTRACT, TRIM, ..) to `special`.

use std::cell::RefCell;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::InList;
use datafusion::sql::sqlparser::ast::{AccessExpr, BinaryOperator, CastKind, Expr as Sql, Subscript, UnaryOperator};
use weir_core::Error;

use super::aggregate::AggregateCall;
use super::binary::comparable_type;
use super::case::negation;
use super::coerce;
use super::lateral::Laterals;
use super::literal;
use super::names;
use super::scope::{Capture, Enclosing, Resolved, Scope};
use super::size::check_type;
use super::star::{Star, misplaced};
use super::window::Windows;
use super::{Analyzer, Result, Typed};
use crate::cast::allowed::{can_cast, may_fail};
use crate::cast::{Cast, CastMode, cast_array};
use crate::error::placed;
use crate::parser::wrong;
use crate::types::{list_of, map_types, quoted_type, timestamp};
use crate::udf::{Rows, SparkFn};
use weir_decode::time::Zone;

/// What an expression can see while it is analysed.
#[derive(Clone, Copy)]
pub struct Cx<'c> {
    /// The columns.
    pub scope: &'c Scope,
    /// The scope around a lambda body.
    pub enclosing: Option<Enclosing<'c>>,
    /// Where aggregate calls go; `None` where they are not allowed.
    pub aggregates: Option<&'c RefCell<Vec<AggregateCall>>>,
    /// Where calls with OVER go; `None` where they are not allowed.
    pub windows: Option<&'c Windows<'c>>,
    /// The aliases of the select list so far, where they can be used.
    pub laterals: Option<&'c Laterals>,
    /// The clause, for messages.
    pub clause: &'static str,
}

impl<'c> Cx<'c> {
    /// A clause without aggregates.
    pub fn new(scope: &'c Scope, clause: &'static str) -> Self {
        Self { scope, enclosing: None, aggregates: None, windows: None, laterals: None, clause }
    }
}

impl Analyzer<'_> {
    /// Analyses an expression. An error says where in the SQL it is.
    pub fn expr(&self, sql: &Sql, cx: &Cx) -> Result<Typed> {
        placed(self.bounded(sql, cx), sql)
    }

    fn bounded(&self, sql: &Sql, cx: &Cx) -> Result<Typed> {
        self.grow(1)?;
        let value = self.expr_of_kind(sql, cx)?;
        if !matches!(sql, Sql::Identifier(_) | Sql::CompoundIdentifier(_)) {
            check_type(&value.name, &value.ty)?;
        }
        Ok(value)
    }

    fn expr_of_kind(&self, sql: &Sql, cx: &Cx) -> Result<Typed> {
        if Star::of_argument(sql).is_some() {
            return Err(misplaced(cx.clause));
        }
        match sql {
            Sql::Nested(inner) => self.expr(inner, cx),
            Sql::Value(value) => literal::value(&value.value),
            Sql::Identifier(ident) => self.name(std::slice::from_ref(&ident.value), cx),
            Sql::CompoundIdentifier(parts) => self.name(&names::idents(parts), cx),
            Sql::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain, cx),
            Sql::TypedString(typed) => {
                let ty = crate::ddl::parse_type_name(&typed.data_type.to_string())?;
                let text = typed.value.value.clone().into_string().unwrap_or_default();
                literal::typed_string(&ty, &text, self.zone()?, self.batch_time.micros())
            }
            Sql::Interval(interval) => literal::interval(interval),
            Sql::Cast { kind, expr, data_type, .. } => {
                let value = self.expr(expr, cx)?;
                let text = crate::ddl::written(data_type);
                let ty = crate::ddl::parse_type_name(&text)?;
                let spark_type = interval_type(&text);
                let (mode, word) = match kind {
                    CastKind::TryCast | CastKind::SafeCast => (CastMode::Try, "TRY_CAST"),
                    CastKind::Cast | CastKind::DoubleColon => (self.cast_mode(), "CAST"),
                };
                let shown = spark_type.clone().unwrap_or_else(|| crate::spark_type_name(&ty)).to_uppercase();
                let name = format!("{word}({} AS {shown})", value.name);
                let mut cast = self.explicit_cast(value, &ty, mode, spark_type.as_deref())?;
                cast.spark_type = spark_type.or(cast.spark_type);
                Ok(cast.named(name))
            }
            Sql::BinaryOp { left, op, right } => self.binary(left, op, right, cx),
            Sql::UnaryOp { op, expr } => self.unary(*op, expr, cx),
            Sql::IsNull(e) => self.test(e, cx, "IS NULL", Expr::IsNull),
            Sql::IsNotNull(e) => self.test(e, cx, "IS NOT NULL", Expr::IsNotNull),
            Sql::IsTrue(e) => self.test_boolean(e, cx, "= true", Expr::IsTrue),
            Sql::IsNotTrue(e) => self.test_boolean(e, cx, "IS NOT TRUE", Expr::IsNotTrue),
            Sql::IsFalse(e) => self.test_boolean(e, cx, "= false", Expr::IsFalse),
            Sql::IsNotFalse(e) => self.test_boolean(e, cx, "IS NOT FALSE", Expr::IsNotFalse),
            Sql::IsUnknown(e) => self.test_boolean(e, cx, "IS NULL", Expr::IsUnknown),
            Sql::IsNotUnknown(e) => self.test_boolean(e, cx, "IS NOT NULL", Expr::IsNotUnknown),
            Sql::IsNotDistinctFrom(l, r) => self.binary(l, &BinaryOperator::Spaceship, r, cx),
            Sql::IsDistinctFrom(l, r) => {
                let same = self.binary(l, &BinaryOperator::Spaceship, r, cx)?;
                Ok(negation(same))
            }
            Sql::Between { expr, negated, low, high } => {
                let low = self.binary(expr, &BinaryOperator::GtEq, low, cx)?;
                let high = self.binary(expr, &BinaryOperator::LtEq, high, cx)?;
                let both = self.and(low, high)?;
                Ok(if *negated { negation(both) } else { both })
            }
            Sql::InList { expr, list, negated } => self.in_list(expr, list, *negated, cx),
            Sql::Case { operand, conditions, else_result, .. } => self.case(operand.as_deref(), conditions, else_result.as_deref(), cx),
            Sql::Function(function) => self.function(function, cx),
            Sql::Lambda(_) => Err(Error::config(
                "INVALID_LAMBDA_FUNCTION_CALL.NON_HIGHER_ORDER_FUNCTION",
                "a lambda function can only be an argument of a higher-order function such as transform or filter",
            )),
            Sql::Subquery(query) => self.scalar_subquery(query, cx),
            Sql::Exists { subquery, negated } => self.exists(subquery, *negated, cx),
            Sql::InSubquery { .. } => Err(Error::config(
                "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY",
                format!("IN (SELECT ..) in {} is not supported there; write it as LEFT SEMI JOIN, LEFT ANTI JOIN or EXISTS", cx.clause),
            )),
            other => self.special(other, cx),
        }
    }

    /// The session's zone.
    pub fn zone(&self) -> Result<Zone> {
        self.conf.zone()
    }

    /// The mode of a plain CAST.
    pub fn cast_mode(&self) -> CastMode {
        if self.conf.ansi { CastMode::Ansi } else { CastMode::Legacy }
    }

    /// A cast that Spark's rules insert by themselves.
    pub fn cast(&self, value: Typed, to: &DataType) -> Result<Typed> {
        let name = value.name.clone();
        Ok(self.explicit_cast(value, to, self.cast_mode(), None)?.named(name))
    }

    /// A cast in a mode; `units` names the interval type to cast to.
    pub fn explicit_cast(&self, value: Typed, to: &DataType, mode: CastMode, units: Option<&str>) -> Result<Typed> {
        if &value.ty == to && units.is_none() {
            return Ok(value);
        }
        // What may fail is evaluated: raise_error has the type of NULL, too.
        if value.ty == DataType::Null && !value.fallible {
            let null = ScalarValue::try_from(to).map_err(crate::error::from_planning)?;
            return Ok(Typed::new(Expr::Literal(null, None), to.clone(), value.name));
        }
        if !can_cast(&value.ty, to, mode) {
            let condition = if self.conf.ansi && can_cast(&value.ty, to, CastMode::Legacy) {
                "DATATYPE_MISMATCH.CAST_WITH_CONF_SUGGESTION"
            } else {
                "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION"
            };
            return Err(Error::config(
                condition,
                format!("cannot resolve \"{}\": cannot cast {} to {}", value.name, quoted_type(&value.ty), quoted_type(to)),
            ));
        }
        let zone = self.zone()?;
        if let Some(text) = value.text()
            && matches!(to, DataType::Date32 | DataType::Timestamp(..))
            && crate::cast::special_instant(text, zone, 0).is_some()
        {
            return self.special_date(text, to, value.name.clone());
        }
        let from_units = value.spark_type.clone();
        let cast = Cast { mode, zone };
        let units = units.map(str::to_owned).or(from_units);
        let fallible = value.fallible || may_fail(&value.ty, to, mode);
        let target = to.clone();
        let key = format!("{mode:?}|{zone:?}|{units:?}");
        let expr = SparkFn::new("cast", key, to.clone(), move |rows: Rows| cast_array(&rows.args[0], &target, cast, units.as_deref()))
            .call(vec![value.expr]);
        let mut typed = Typed::new(expr, to.clone(), value.name);
        typed.fallible = fallible;
        Ok(typed)
    }

    /// `CAST('today' AS DATE)` and its kin, by the batch's clock.
    fn special_date(&self, text: &str, to: &DataType, name: String) -> Result<Typed> {
        let zone = self.zone()?;
        let (text, target) = (text.to_owned(), to.clone());
        let now = crate::exec::batch_time_expr(&self.batch_time);
        let cast = Cast { mode: CastMode::Legacy, zone };
        let expr = SparkFn::new("special_date", format!("{text}|{zone:?}"), to.clone(), move |rows: Rows| {
            let now: &arrow::array::TimestampMicrosecondArray = crate::udf::downcast(&rows.args[0])?;
            let instants: arrow::array::TimestampMicrosecondArray =
                now.iter().map(|n| n.and_then(|n| crate::cast::special_instant(&text, zone, n))).collect();
            let instants: arrow::array::ArrayRef = std::sync::Arc::new(instants.with_timezone("UTC"));
            cast_array(&instants, &target, cast, None)
        })
        .volatile()
        .call(vec![now]);
        Ok(Typed::new(expr, to.clone(), name))
    }

    /// A call of a kernel.
    pub fn call(
        &self,
        name: &str,
        key: impl Into<String>,
        result: DataType,
        args: &[Typed],
        kernel: impl Fn(Rows<'_>) -> datafusion::common::Result<arrow::array::ArrayRef> + Send + Sync + 'static,
    ) -> Typed {
        let exprs = args.iter().map(|a| a.expr.clone()).collect();
        let shown = names::call(name, args.iter().map(|a| a.name.as_str()));
        Typed::new(SparkFn::new(name, key, result.clone(), kernel).call(exprs), result, shown).failing_like(args)
    }

    pub(super) fn name(&self, parts: &[String], cx: &Cx) -> Result<Typed> {
        if let Some(found) = self.resolve(parts, cx)? {
            return Ok(found);
        }
        if let Some(found) = self.outer_column(parts)? {
            return Ok(found);
        }
        if let [one] = parts
            && let Some(value) = self.bare_function(one)?
        {
            return Ok(value);
        }
        Err(cx.scope.unresolved(parts))
    }

    fn resolve(&self, parts: &[String], cx: &Cx) -> Result<Option<Typed>> {
        match cx.scope.resolve(parts, self.conf.case_sensitive)? {
            Resolved::Column(col, taken) => {
                let mut value = col.typed();
                if cx.enclosing.is_some() {
                    value = value.named("namedlambdavariable()");
                }
                for part in &parts[taken..] {
                    value = self.field(value, part)?;
                }
                Ok(Some(value))
            }
            Resolved::Missing => {
                let Some(enclosing) = &cx.enclosing else { return self.lateral(parts, cx) };
                match enclosing.scope.resolve(parts, self.conf.case_sensitive)? {
                    Resolved::Column(col, taken) => {
                        let mut value = self.capture(col.typed(), enclosing);
                        for part in &parts[taken..] {
                            value = self.field(value, part)?;
                        }
                        Ok(Some(value))
                    }
                    Resolved::Missing => self.lateral(parts, cx),
                }
            }
        }
    }

    /// A column of the query around a subquery.
    fn outer_column(&self, parts: &[String]) -> Result<Option<Typed>> {
        let outer = self.outer.borrow();
        let Some(scope) = outer.last() else { return Ok(None) };
        let Resolved::Column(col, taken) = scope.resolve(parts, self.conf.case_sensitive)? else { return Ok(None) };
        let field = std::sync::Arc::new(arrow::datatypes::Field::new(&col.column.name, col.ty.clone(), true));
        let mut value = Typed { expr: Expr::OuterReferenceColumn(field, col.column.clone()), ..col.typed() };
        for part in &parts[taken..] {
            value = self.field(value, part)?;
        }
        Ok(Some(value))
    }

    /// A name that an item before gave its value.
    fn lateral(&self, parts: &[String], cx: &Cx) -> Result<Option<Typed>> {
        let (Some(laterals), Some((alias, fields))) = (cx.laterals, parts.split_first()) else { return Ok(None) };
        let Some(mut value) = laterals.find(alias, self.conf.case_sensitive)? else { return Ok(None) };
        self.grow_by(&value.expr)?;
        if let Some(enclosing) = &cx.enclosing {
            value = self.capture(value, enclosing);
        }
        for field in fields {
            value = self.field(value, field)?;
        }
        Ok(Some(value))
    }

    /// An outer expression as a column of the lambda's own rows.
    pub(crate) fn capture(&self, outer: Typed, enclosing: &Enclosing) -> Typed {
        let mut captures = enclosing.captures.borrow_mut();
        let name = match captures.iter().find(|c| c.outer.expr == outer.expr) {
            Some(known) => known.name.clone(),
            None => {
                let name = self.fresh("cap");
                captures.push(Capture { name: name.clone(), outer: outer.clone() });
                name
            }
        };
        Typed { expr: Expr::Column(datafusion::common::Column::new_unqualified(name)), ..outer }
    }

    /// `value.name` on a struct, an array of structs or a map.
    pub fn field(&self, value: Typed, name: &str) -> Result<Typed> {
        let shown = format!("{}.{name}", value.name);
        let not_found = |fields: &arrow::datatypes::Fields| {
            let known: Vec<_> = fields.iter().map(|f| format!("`{}`", f.name())).collect();
            Error::config("FIELD_NOT_FOUND", format!("no such struct field `{name}` in {}; write one of those", known.join(", ")))
        };
        let find = |fields: &arrow::datatypes::Fields| {
            let exact = fields.iter().position(|f| f.name() == name);
            exact.or_else(|| if self.conf.case_sensitive { None } else { fields.iter().position(|f| f.name().eq_ignore_ascii_case(name)) })
        };
        match value.ty.clone() {
            DataType::Struct(fields) => {
                let index = find(&fields).ok_or_else(|| not_found(&fields))?;
                let field = &fields[index];
                let mut typed = self.call("get_field", index.to_string(), field.data_type().clone(), &[value], move |rows: Rows| {
                    crate::functions::nested::struct_field(&rows.args[0], index)
                });
                typed.spark_type = field.metadata().get(crate::types::SPARK_TYPE_KEY).cloned();
                Ok(typed.named(shown_field(&shown, field.name())))
            }
            DataType::List(item) => match item.data_type() {
                DataType::Struct(fields) => {
                    let index = find(fields).ok_or_else(|| not_found(fields))?;
                    let result = list_of(fields[index].data_type().clone());
                    let typed = self.call("get_array_fields", index.to_string(), result, &[value], move |rows: Rows| {
                        crate::functions::nested::list_struct_field(&rows.args[0], index)
                    });
                    Ok(typed.named(shown))
                }
                _ => Err(extract_error(&value)),
            },
            DataType::Map(..) => self.index(value, Typed::string(name)),
            _ => Err(extract_error(&value)),
        }
    }

    /// `value[index]`.
    pub fn index(&self, value: Typed, index: Typed) -> Result<Typed> {
        let shown = format!("{}[{}]", value.name, index.name);
        match value.ty.clone() {
            DataType::List(item) => {
                if !coerce::is_integral(&index.ty) && index.ty != DataType::Null {
                    return Err(Error::config(
                        "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
                        format!("cannot resolve \"{shown}\": an array is indexed by an integer, not by {}", quoted_type(&index.ty)),
                    ));
                }
                let index = self.cast(index, &DataType::Int64)?;
                let ansi = self.conf.ansi;
                let typed = self
                    .call("get_array_item", ansi.to_string(), item.data_type().clone(), &[value, index], move |rows: Rows| {
                        crate::functions::nested::list_item(rows.args, ansi)
                    })
                    .named(shown);
                Ok(if ansi { typed.may_fail() } else { typed })
            }
            DataType::Map(..) => {
                let (key, item) = map_types(&value.ty).map(|(k, v)| (k.clone(), v.clone())).unwrap_or((DataType::Null, DataType::Null));
                let index = self.cast(index, &key)?;
                Ok(self
                    .call("get_map_value", "", item, &[value, index], |rows: Rows| crate::functions::map::map_lookup(rows.args))
                    .named(shown))
            }
            DataType::Struct(_) => match index.text() {
                Some(name) => {
                    let name = name.to_owned();
                    self.field(value, &name)
                }
                None => Err(extract_error(&value)),
            },
            _ => Err(extract_error(&value)),
        }
    }

    fn access(&self, root: &Sql, chain: &[AccessExpr], cx: &Cx) -> Result<Typed> {
        // `t.a[0]` arrives as root `t` with `.a`; names are resolved together.
        let mut dotted: Vec<String> = match root {
            Sql::Identifier(i) => vec![i.value.clone()],
            Sql::CompoundIdentifier(parts) => names::idents(parts),
            _ => vec![],
        };
        let mut rest = chain;
        if !dotted.is_empty() {
            while let [AccessExpr::Dot(Sql::Identifier(i)), more @ ..] = rest {
                dotted.push(i.value.clone());
                rest = more;
            }
        }
        let mut value = if dotted.is_empty() { self.expr(root, cx)? } else { self.name(&dotted, cx)? };
        for step in rest {
            value = match step {
                AccessExpr::Dot(Sql::Identifier(i)) => self.field(value, &i.value)?,
                AccessExpr::Dot(Sql::Value(v)) => {
                    let name = v.value.clone().into_string().unwrap_or_else(|| v.value.to_string());
                    self.field(value, &name)?
                }
                AccessExpr::Subscript(Subscript::Index { index }) => {
                    let index = self.expr(index, cx)?;
                    self.index(value, index)?
                }
                other => {
                    return Err(wrong(&format!("unexpected `{other}`")));
                }
            };
        }
        Ok(value)
    }

    fn test(&self, e: &Sql, cx: &Cx, shown: &str, build: fn(Box<Expr>) -> Expr) -> Result<Typed> {
        let value = self.expr(e, cx)?;
        let name = format!("({} {shown})", value.name);
        Ok(Typed::new(build(Box::new(value.expr.clone())), DataType::Boolean, name).failing_like([&value]))
    }

    fn test_boolean(&self, e: &Sql, cx: &Cx, shown: &str, build: fn(Box<Expr>) -> Expr) -> Result<Typed> {
        let value = self.boolean(self.expr(e, cx)?)?;
        let name = format!("({} {shown})", value.name);
        Ok(Typed::new(build(Box::new(value.expr.clone())), DataType::Boolean, name).failing_like([&value]))
    }

    /// The value as a condition.
    pub fn boolean(&self, value: Typed) -> Result<Typed> {
        match value.ty {
            DataType::Boolean => Ok(value),
            DataType::Null => self.cast(value, &DataType::Boolean),
            DataType::Utf8 if self.conf.ansi || value.text().is_some() => self.cast(value, &DataType::Boolean),
            _ => Err(Error::config(
                "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
                format!(
                    "\"{}\" should be of type \"BOOLEAN\" but is {}; write a comparison, or CAST it",
                    value.name,
                    quoted_type(&value.ty)
                ),
            )),
        }
    }

    fn unary(&self, op: UnaryOperator, e: &Sql, cx: &Cx) -> Result<Typed> {
        let value = self.expr(e, cx)?;
        match op {
            UnaryOperator::Plus => {
                let name = format!("(+ {})", value.name);
                let value = if value.ty == DataType::Utf8 { self.cast(value, &DataType::Float64)? } else { value };
                Ok(value.named(name))
            }
            UnaryOperator::Minus => match literal::negated(&value) {
                Some(literal) => Ok(literal),
                None => self.negate(value),
            },
            UnaryOperator::Not | UnaryOperator::BangNot => Ok(negation(self.boolean(value)?)),
            UnaryOperator::BitwiseNot => {
                crate::functions::build(self, "~", vec![value]).unwrap_or_else(|| Err(wrong("`~` is not supported here")))
            }
            other => Err(wrong(&format!("Spark SQL has no operator '{other}'"))),
        }
    }

    fn in_list(&self, expr: &Sql, list: &[Sql], negated: bool, cx: &Cx) -> Result<Typed> {
        let value = self.expr(expr, cx)?;
        let list = self.arguments(list, cx)?;
        let types: Vec<&DataType> = std::iter::once(&value.ty).chain(list.iter().map(|t| &t.ty)).collect();
        let ty = coerce::common(types, self.conf.ansi).ok_or_else(|| {
            Error::config(
                "DATATYPE_MISMATCH.DATA_DIFF_TYPES",
                format!("the values of IN beside \"{}\" should all be of one type; CAST the others", value.name),
            )
        })?;
        let shown: Vec<_> = list.iter().map(|t| t.name.as_str()).collect();
        let name = format!("({} IN ({}))", value.name, shown.join(", "));
        super::orderable::check_order("in", &name, &ty)?;
        let fallible = value.fallible || list.iter().any(|t| t.fallible);
        // A literal is cast while the query is planned, so what may fail there is not a row.
        let waits = |t: &Typed| t.value().is_none() && (t.fallible || may_fail(&t.ty, &ty, self.cast_mode()));
        let found = if ty == DataType::Null && !fallible || list.iter().all(Typed::is_null) {
            Typed::literal(ScalarValue::Boolean(None), "")
        } else if list.iter().any(waits) {
            let ty = comparable_type(ty);
            let value = self.cast(value, &ty)?;
            let list = list.into_iter().map(|t| self.cast(t, &ty)).collect::<Result<Vec<_>>>()?;
            self.one_by_one(value, list)?
        } else {
            let ty = comparable_type(ty);
            let value = self.comparable(self.cast(value, &ty)?);
            let list = list.into_iter().map(|t| Ok(self.comparable(self.cast(t, &ty)?).expr)).collect::<Result<Vec<_>>>()?;
            let expr = Expr::InList(InList { expr: Box::new(value.expr), list, negated: false });
            let mut found = Typed::new(expr, DataType::Boolean, "");
            found.fallible = fallible;
            found
        };
        let found = found.named(name);
        Ok(if negated { negation(found) } else { found })
    }

    /// All values cast to their common type.
    pub fn to_common(&self, function: &str, values: Vec<Typed>) -> Result<Vec<Typed>> {
        let ty = coerce::common(values.iter().map(|v| &v.ty), self.conf.ansi).ok_or_else(|| {
            let types: Vec<_> = values.iter().map(|v| quoted_type(&v.ty)).collect();
            Error::config(
                "DATATYPE_MISMATCH.DATA_DIFF_TYPES",
                format!("the inputs of {function} should all be of one type, but they are [{}]; CAST the others", types.join(", ")),
            )
        })?;
        values.into_iter().map(|v| self.cast(v, &ty)).collect()
    }

    /// Functions that Spark lets be called without parentheses.
    fn bare_function(&self, name: &str) -> Result<Option<Typed>> {
        match name.to_ascii_lowercase().as_str() {
            bare @ ("current_timestamp" | "current_date" | "localtimestamp" | "current_user" | "current_catalog" | "current_database"
            | "session_user" | "user") => crate::functions::build(self, bare, vec![]).transpose(),
            _ => Ok(None),
        }
    }

    /// The instant of the batch.
    pub fn now(&self) -> Typed {
        Typed::new(crate::exec::batch_time_expr(&self.batch_time), timestamp(), "current_timestamp()")
    }
}

fn shown_field(shown: &str, field: &str) -> String {
    // Spark names the column after the field alone when the path is only names.
    let path_only = shown.chars().all(|c| c.is_alphanumeric() || c == '.' || c == '_');
    if path_only { field.to_owned() } else { shown.to_owned() }
}

fn extract_error(value: &Typed) -> Error {
    Error::config(
        "INVALID_EXTRACT_BASE_FIELD_TYPE",
        format!(
            "can't extract a value from \"{}\"; need a complex type [STRUCT, ARRAY, MAP] but got {}",
            value.name,
            quoted_type(&value.ty)
        ),
    )
}

/// The Spark type name of an interval type as CAST writes it.
fn interval_type(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    lower.starts_with("interval ").then_some(lower)
}
