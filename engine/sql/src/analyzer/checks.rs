//! Which plans over streams are refused, and with which condition.
//!
//! Analysis collects findings; `check` decides over them in Spark's order, as a
//! pure function. What Spark would run with state, and Weir does not yet, is
//! refused with `WEIR_UNSUPPORTED_STATEFUL_OPERATOR` and what to write instead.

use weir_core::Error;

/// When rows of the result are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputMode {
    /// Every row once.
    Append,
    /// Rows that changed in the batch.
    Update,
    /// The whole result every batch.
    Complete,
}

impl OutputMode {
    fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Update => "update",
            Self::Complete => "complete",
        }
    }
}

/// Something that a plan does to a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// GROUP BY or an aggregate function.
    Aggregation,
    /// `session_window`.
    SessionWindow,
    /// SELECT DISTINCT, which Spark plans as an aggregation.
    Distinct,
    /// An aggregate function over DISTINCT values.
    DistinctAggregate,
    /// ORDER BY, and whether it sorts an aggregated result.
    Sort {
        /// An aggregation is below.
        aggregated: bool,
    },
    /// LIMIT.
    Limit,
    /// OFFSET.
    Offset,
    /// TABLESAMPLE.
    Sample,
    /// A window function.
    WindowFunction,
    /// A join of two streams, by Spark's join type name.
    StreamStreamJoin(&'static str),
    /// An outer, semi or anti join whose preserved side is not the stream.
    StaticOuterJoin(&'static str),
    /// UNION of a stream and a table.
    UnionOfStreamAndTable,
    /// INTERSECT of streams.
    Intersect,
    /// EXCEPT with a stream on the right.
    ExceptOnRight,
    /// EXCEPT of a stream and a table.
    Except,
    /// `monotonically_increasing_id()`.
    MonotonicId,
}

/// Decides whether the findings can run in the mode.
pub fn check(findings: &[Finding], mode: OutputMode, has_watermark: bool) -> Result<(), Error> {
    let aggregated = findings.iter().any(|f| matches!(f, Finding::Aggregation | Finding::Distinct | Finding::SessionWindow));
    if mode == OutputMode::Complete && !aggregated {
        return Err(invalid_mode(mode, "no streaming aggregations", "use outputMode Append"));
    }
    if mode == OutputMode::Update && findings.contains(&Finding::SessionWindow) {
        return Err(invalid_mode(mode, "session window streaming aggregations", "use outputMode Append"));
    }
    if mode == OutputMode::Append && aggregated && !has_watermark {
        return Err(invalid_mode(mode, "streaming aggregations without watermark", "aggregate where the sink's table is read"));
    }
    for finding in findings {
        refuse(finding, mode)?;
    }
    if aggregated {
        return Err(stateful(
            "aggregation over a stream (GROUP BY, DISTINCT, aggregate functions)",
            "write the rows as they are and aggregate where the sink's table is read",
        ));
    }
    Ok(())
}

fn refuse(finding: &Finding, mode: OutputMode) -> Result<(), Error> {
    Err(match finding {
        Finding::Aggregation | Finding::Distinct | Finding::SessionWindow => return Ok(()),
        Finding::DistinctAggregate => unsupported(
            "distinct aggregations are not supported on streaming DataFrames/Datasets; consider using approx_count_distinct() instead",
        ),
        Finding::Sort { aggregated: true } if mode == OutputMode::Complete => return Ok(()),
        Finding::Sort { .. } => unsupported(
            "sorting is not supported on streaming DataFrames/Datasets, unless it is on aggregated DataFrame/Dataset in Complete output mode; \
             leave ORDER BY out and sort where the table is read",
        ),
        Finding::Limit if mode == OutputMode::Append => stateful(
            "LIMIT over a stream",
            "leave it out; bound a batch with a source option such as maxOffsetsPerTrigger or maxFilesPerTrigger",
        ),
        Finding::Limit => unsupported("limits are not supported on streaming DataFrames/Datasets in Update output mode; leave LIMIT out"),
        Finding::Offset => unsupported("OFFSET is not supported on streaming DataFrames/Datasets; leave it out"),
        Finding::Sample => unsupported("sampling is not supported on streaming DataFrames/Datasets; filter by a hash of a key instead"),
        Finding::WindowFunction => Error::config(
            "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
            "window functions (OVER) are not supported on streaming DataFrames/Datasets; compute them where the table is read",
        ),
        Finding::StreamStreamJoin(kind @ ("LeftOuter" | "RightOuter" | "FullOuter")) => {
            if mode == OutputMode::Append {
                unsupported(&format!(
                    "stream-stream {kind} join between two streaming DataFrame/Datasets is not supported without a watermark in the join keys, \
                     or a watermark on the nullable side and an appropriate range condition"
                ))
            } else {
                unsupported(&format!(
                    "{kind} join between two streaming DataFrames/Datasets is not supported in {} output mode, only in Append output mode",
                    mode.name()
                ))
            }
        }
        Finding::StreamStreamJoin("LeftAnti") => {
            unsupported("left anti join with a streaming DataFrame/Dataset on the right is not supported")
        }
        Finding::StreamStreamJoin(kind) => stateful(
            &format!("a {kind} join of two streams"),
            "write both streams into tables and join one of them as a static input (tables:), which is read again each batch",
        ),
        Finding::StaticOuterJoin(kind) => unsupported(&format!(
            "{kind} join with a streaming DataFrame/Dataset on the side that is not preserved is not supported; \
             put the stream on the preserved side (stream LEFT JOIN table)"
        )),
        Finding::UnionOfStreamAndTable => {
            unsupported("union between streaming and batch DataFrames/Datasets is not supported; declare the table as a source of its own")
        }
        Finding::Intersect => {
            unsupported("intersect of streaming DataFrames/Datasets is not supported; use LEFT SEMI JOIN with a static table")
        }
        Finding::ExceptOnRight => unsupported("except on a streaming DataFrame/Dataset on the right is not supported"),
        Finding::Except if mode == OutputMode::Append => Error::config(
            "UNSUPPORTED_STREAMING_OPERATOR_WITHOUT_WATERMARK",
            "append output mode is not supported for EXCEPT on a stream without watermark; use LEFT ANTI JOIN with a static table",
        ),
        Finding::Except => stateful("EXCEPT over a stream", "use LEFT ANTI JOIN with a static table"),
        Finding::MonotonicId => {
            unsupported("expression(s): monotonically_increasing_id() is not supported with streaming DataFrames/Datasets; use uuid()")
        }
    })
}

fn invalid_mode(mode: OutputMode, operation: &str, remedy: &str) -> Error {
    Error::config(
        "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION",
        format!(
            "invalid streaming output mode: {}; this output mode is not supported for {operation} on streaming DataFrames/DataSets; {remedy}",
            mode.name()
        ),
    )
}

fn unsupported(sentence: &str) -> Error {
    Error::config("_LEGACY_ERROR_TEMP_3102", sentence.to_owned())
}

fn stateful(what: &str, remedy: &str) -> Error {
    Error::config("WEIR_UNSUPPORTED_STATEFUL_OPERATOR", format!("{what} needs state, which Weir does not keep yet; {remedy}"))
}
