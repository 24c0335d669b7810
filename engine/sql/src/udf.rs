//! The one kind of scalar function of this crate: a typed closure over arrays.
//!
//! The analyzer has already decided argument and result types, so a function is
//! its name, its result type and the kernel; settings (ANSI mode, time zone,
//! patterns) are captured by the kernel and named in `key`, by which two
//! functions are told apart. Kernels get whole arrays, all of one length.

use std::any::Any;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use weir_core::error::panic_text;

use crate::error::spark_error;
use crate::exec::folding;
use crate::functions::bounds::{for_rows, judge_growth, judge_repeated, width};

/// What a kernel is called with.
pub struct Rows<'a> {
    /// The arguments, each of `len` rows.
    pub args: &'a [ArrayRef],
    /// The number of rows.
    pub len: usize,
}

/// A kernel.
pub type Kernel = Arc<dyn Fn(Rows<'_>) -> Result<ArrayRef> + Send + Sync>;

/// A scalar function with its types already decided.
pub struct SparkFn {
    name: String,
    key: String,
    result: DataType,
    signature: Signature,
    kernel: Kernel,
    /// Tells calls with different arguments apart in plans. Arguments are not
    /// spelled out there: the names of nested calls would grow with each level.
    arguments: u64,
}

impl SparkFn {
    /// A deterministic function.
    pub fn new(
        name: impl Into<String>,
        key: impl Into<String>,
        result: DataType,
        kernel: impl Fn(Rows<'_>) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            key: key.into(),
            result,
            signature: Signature::variadic_any(Volatility::Immutable),
            kernel: Arc::new(kernel),
            arguments: 0,
        }
    }

    /// A function whose result may differ between two calls.
    #[must_use]
    pub fn volatile(mut self) -> Self {
        self.signature = Signature::variadic_any(Volatility::Volatile);
        self
    }

    /// The name, and what tells it from others of that name.
    pub(crate) fn name_and_key(&self) -> (&str, &str) {
        (&self.name, &self.key)
    }

    /// The call of this function.
    pub fn call(self, args: Vec<Expr>) -> Expr {
        let mut this = self;
        let mut hasher = DefaultHasher::new();
        args.hash(&mut hasher);
        this.arguments = hasher.finish();
        if args.is_empty() {
            this.signature = Signature::nullary(this.signature.volatility);
        }
        ScalarUDF::new_from_impl(this).call(args)
    }
}

impl SparkFn {
    /// Runs the kernel. What libraries answer with a panic, such as more bytes than offsets can tell, is an error of these rows.
    fn run(&self, rows: Rows<'_>) -> Result<ArrayRef> {
        judge_growth(&self.name, rows.args)?;
        catch_unwind(AssertUnwindSafe(|| (self.kernel)(rows))).unwrap_or_else(|cause| {
            let why = panic_text(cause.as_ref());
            Err(spark_error(
                "WEIR_FUNCTION_FAILED",
                format!("{} cannot be computed for these rows: {why}; make its arguments smaller", self.name),
            ))
        })
    }
}

impl fmt::Debug for SparkFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.name, self.key)
    }
}

impl PartialEq for SparkFn {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.key == other.key && self.result == other.result
    }
}

impl Eq for SparkFn {}

impl Hash for SparkFn {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.key.hash(state);
        self.result.hash(state);
    }
}

impl ScalarUDFImpl for SparkFn {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _args: &[DataType]) -> Result<DataType> {
        Ok(self.result.clone())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(&self.name, self.result.clone(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = !args.args.is_empty() && args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let len = if scalar { 1 } else { args.number_rows };
        let arrays = args.args.into_iter().map(|a| for_rows(&self.name, a, len)).collect::<Result<Vec<_>>>()?;
        let result = self.run(Rows { args: &arrays, len })?;
        if result.data_type() != &self.result {
            return Err(DataFusionError::Internal(format!("{} returned {} instead of {}", self.name, result.data_type(), self.result)));
        }
        if !scalar {
            return Ok(ColumnarValue::Array(result));
        }
        folding::judge(&self.name, width(&result, 0))?;
        let constant = ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?);
        judge_repeated(&self.name, &constant, args.number_rows)?;
        Ok(constant)
    }

    fn schema_name(&self, _args: &[Expr]) -> Result<String> {
        Ok(format!("{}[{}]#{:016x}", self.name, self.key, self.arguments))
    }
}

/// The array as its concrete type; the analyzer has decided the type.
pub fn downcast<T: Any>(array: &ArrayRef) -> Result<&T> {
    array.as_any().downcast_ref::<T>().ok_or_else(|| {
        DataFusionError::Internal(format!(
            "an argument of type {} arrived where {} was planned",
            array.data_type(),
            std::any::type_name::<T>()
        ))
    })
}
