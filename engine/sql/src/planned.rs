//! Functions whose argument types, result type and kernel are decided from
//! the types and constants of one call.
//!
//! `json` and `datetime` plan their functions into `Planned`; the analyzer casts
//! each argument to the wanted type and calls the kernel through `SparkFn`.
//! Constant arguments (schemas, option maps, patterns) are folded before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, StringArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;
use weir_core::Error;
use weir_decode::time::Zone;

use crate::cast::{Cast, CastMode};
use crate::conf::SqlConf;
use crate::error::spark_error;
use crate::udf::{Kernel, Rows};

/// An argument of a call as planning sees it.
#[derive(Clone, Debug)]
pub struct Arg {
    /// Its type.
    pub data_type: DataType,
    /// Its value, if it is constant.
    pub value: Option<ScalarValue>,
}

impl Arg {
    /// The text of a constant string.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Some(ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text))) => Some(text),
            _ => None,
        }
    }

    /// Whether it is the constant NULL.
    pub fn is_null(&self) -> bool {
        self.data_type == DataType::Null || self.value.as_ref().is_some_and(ScalarValue::is_null)
    }
}

/// A call with everything decided.
#[derive(Clone)]
pub struct Planned {
    /// The type that each argument is cast to.
    pub args: Vec<DataType>,
    /// The type of the result.
    pub result: DataType,
    /// Tells calls with other constants or settings apart.
    pub key: String,
    /// Whether a row may fail.
    pub may_fail: bool,
    /// Where the kernel counts records that did not fit, if it decodes some.
    pub malformed: Option<Malformed>,
    /// Tells of each text why it does not fit, null where it does; for decoders that go on after one that does not.
    pub misfit: Option<Kernel>,
    /// The kernel, over arguments of the types above.
    pub kernel: Kernel,
}

/// Records that did not fit their schema, counted by the kernels of a call on
/// all lanes, until somebody takes the number.
#[derive(Clone, Debug, Default)]
pub struct Malformed(Arc<AtomicU64>);

impl Malformed {
    /// Counts.
    pub fn add(&self, records: u64) {
        self.0.fetch_add(records, Ordering::Relaxed);
    }

    /// Takes what was counted since the last time.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Planned {
    /// A call that cannot fail on a row.
    pub fn new(
        args: impl Into<Vec<DataType>>,
        result: DataType,
        kernel: impl Fn(Rows<'_>) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Self {
        Self { args: args.into(), result, key: String::new(), may_fail: false, malformed: None, misfit: None, kernel: Arc::new(kernel) }
    }

    /// Names the constants that the kernel holds.
    #[must_use]
    pub fn keyed(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }

    /// A row may fail, if the session is in ANSI mode.
    #[must_use]
    pub fn failing(mut self, session: &Session) -> Self {
        self.may_fail = session.ansi;
        self
    }
}

/// The settings that kernels hold.
#[derive(Clone, Debug)]
pub struct Session {
    /// Errors instead of nulls.
    pub ansi: bool,
    /// The session's zone.
    pub zone: Zone,
    /// For casts inside kernels.
    pub cast: Cast,
}

impl Session {
    /// The settings of a query.
    pub fn new(conf: &SqlConf) -> Result<Self, Error> {
        let cast = Cast { mode: if conf.ansi { CastMode::Ansi } else { CastMode::Legacy }, zone: conf.zone()? };
        Ok(Self { ansi: conf.ansi, zone: cast.zone, cast })
    }

    /// The error in ANSI mode, NULL in legacy mode.
    pub fn invalid<T>(&self, condition: &str, message: impl FnOnce() -> String) -> Result<Option<T>> {
        if self.ansi { Err(spark_error(condition, message())) } else { Ok(None) }
    }
}

/// Plans a call; none if the name is not one of the family's.
pub type Planner = fn(&str, &[Arg], &SqlConf) -> Option<Result<Planned, Error>>;

/// An argument count outside of what a function takes.
pub fn wrong_count(name: &str, expected: &str, found: usize) -> Error {
    Error::config(
        "WRONG_NUM_ARGS.WITHOUT_SUGGESTION",
        format!("the `{name}` requires {expected} parameters but the actual number is {found}"),
    )
}

/// A decoder's error at planning.
pub fn planning(error: &weir_decode::DecodeError) -> Error {
    Error::config(error.condition().to_owned(), error.message().to_owned())
}

/// A decoder's error at run time.
pub fn running(error: &weir_decode::DecodeError) -> DataFusionError {
    spark_error(error.condition(), error.message())
}

/// The argument as an array of primitives.
pub fn primitive<'a, T: ArrowPrimitiveType>(rows: &Rows<'a>, index: usize) -> Result<&'a PrimitiveArray<T>> {
    argument(rows, index)?.as_primitive_opt().ok_or_else(|| unexpected(rows, index))
}

/// The argument as strings.
pub fn strings<'a>(rows: &Rows<'a>, index: usize) -> Result<&'a StringArray> {
    argument(rows, index)?.as_string_opt().ok_or_else(|| unexpected(rows, index))
}

fn argument<'a>(rows: &Rows<'a>, index: usize) -> Result<&'a ArrayRef> {
    rows.args.get(index).ok_or_else(|| DataFusionError::Internal(format!("argument {index} is missing")))
}

fn unexpected(rows: &Rows<'_>, index: usize) -> DataFusionError {
    DataFusionError::Internal(format!("argument {index} has the unplanned type {}", rows.args[index].data_type()))
}

/// The value of a row, if it is not null.
pub fn at<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, row: usize) -> Option<T::Native> {
    array.is_valid(row).then(|| array.value(row))
}

/// The text of a row, if it is not null.
pub fn text_at(array: &StringArray, row: usize) -> Option<&str> {
    array.is_valid(row).then(|| array.value(row))
}

/// Computes a primitive column row by row.
pub fn each<T: ArrowPrimitiveType>(
    len: usize,
    result: &DataType,
    mut value: impl FnMut(usize) -> Result<Option<T::Native>>,
) -> Result<ArrayRef> {
    let mut builder = PrimitiveArray::<T>::builder(len).with_data_type(result.clone());
    for row in 0..len {
        builder.append_option(value(row)?);
    }
    Ok(Arc::new(builder.finish()))
}

/// Computes a string column row by row.
pub fn each_text(len: usize, mut value: impl FnMut(usize) -> Result<Option<String>>) -> Result<ArrayRef> {
    let mut builder = arrow::array::StringBuilder::with_capacity(len, len * 16);
    for row in 0..len {
        builder.append_option(value(row)?);
    }
    Ok(Arc::new(builder.finish()))
}

/// Leaves the closure of a row with NULL if a value is missing.
macro_rules! some {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}
pub(crate) use some;

/// Builds the call for the analyzer: constants are folded, arguments cast.
pub(crate) fn build(
    analyzer: &crate::analyzer::Analyzer<'_>,
    planner: Planner,
    name: &str,
    args: Vec<crate::analyzer::Typed>,
) -> Result<crate::analyzer::Typed, Error> {
    let described: Vec<Arg> = args.iter().map(|arg| Arg { data_type: arg.ty.clone(), value: constant(&arg.expr) }).collect();
    let planned = planner(name, &described, analyzer.conf)
        .unwrap_or_else(|| Err(Error::config("UNRESOLVED_ROUTINE", format!("`{name}` is not a function of this family"))))?;
    let shown = shown(name, &args);
    let args = (args.into_iter().zip(&planned.args)).map(|(arg, wanted)| analyzer.cast(arg, wanted)).collect::<Result<Vec<_>, Error>>()?;
    if planned.malformed.is_some() {
        match planned.misfit {
            Some(misfit) => drop(analyzer.misfits.borrow_mut().insert((name.to_owned(), planned.key.clone()), misfit)),
            None => analyzer.fails_fast.set(true),
        }
    }
    analyzer.malformed.borrow_mut().extend(planned.malformed);
    let kernel = Arc::clone(&planned.kernel);
    let mut call = analyzer.call(name, planned.key, planned.result, &args, move |rows: Rows<'_>| kernel(rows));
    call.fallible |= planned.may_fail;
    Ok(match shown {
        Some(shown) => call.named(format!("\u{0}{shown}")),
        None => call,
    })
}

/// Spark's column name of a call, where it is not the call as written.
fn shown(name: &str, args: &[crate::analyzer::Typed]) -> Option<String> {
    let list = |args: &[crate::analyzer::Typed]| args.iter().map(|arg| arg.name.as_str()).collect::<Vec<_>>().join(", ");
    let (first, default) = match (name, args.len()) {
        ("from_json" | "to_json" | "from_csv" | "to_csv" | "schema_of_json" | "schema_of_csv", 2..) => (list(&args[..1]), ""),
        ("from_unixtime", 1) | ("unix_timestamp" | "to_unix_timestamp", 1) => (list(args), ", yyyy-MM-dd HH:mm:ss"),
        ("months_between", 2) => (list(args), ", true"),
        ("dateadd" | "date_add", 3) => return Some(format!("timestampadd({})", list(args))),
        ("datediff" | "date_diff" | "timediff", 3) => return Some(format!("timestampdiff({})", list(args))),
        ("window", _) => return Some("window".to_owned()),
        _ => return None,
    };
    Some(format!("{name}({first}{default})"))
}

/// The value of an expression without columns, if it has one.
pub(crate) fn constant(expr: &datafusion::logical_expr::Expr) -> Option<ScalarValue> {
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::Expr;
    use datafusion::logical_expr::execution_props::ExecutionProps;
    use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
    if let Expr::Literal(value, _) = expr {
        return Some(value.clone());
    }
    if expr.any_column_refs() || expr.is_volatile() {
        return None;
    }
    let props = ExecutionProps::new();
    let physical =
        datafusion::physical_expr::create_physical_expr(expr, &DFSchema::empty(), &props, &PhysicalPlanningContext::default()).ok()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(1));
    let schema = Arc::new(arrow::datatypes::Schema::empty());
    let one_row = arrow::array::RecordBatch::try_new_with_options(schema, vec![], &options).ok()?;
    match physical.evaluate(&one_row).ok()? {
        ColumnarValue::Scalar(value) => Some(value),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).ok(),
    }
}
