//! Manifests of jobs with one task, put together from their parts.

/// A query of a job; strings are YAML as it stands in a manifest.
pub struct Query<'a> {
    pub name: &'a str,
    pub sources: &'a [&'a str],
    pub sql: &'a str,
    pub sink: &'a str,
    pub trigger: &'a str,
    /// Further fields of the query, one a line.
    pub fields: &'a [&'a str],
}

/// A query that takes what is there.
pub const AVAILABLE_NOW: &str = "{availableNow: {}}";

impl Query<'_> {
    fn yaml(&self) -> String {
        let Self { name, sources, sql, sink, trigger, fields } = self;
        let sources: String = sources.iter().map(|source| format!("      - {source}\n")).collect();
        let fields: String = fields.iter().map(|field| format!("      {field}\n")).collect();
        format!(
            "    - name: {name}\n      sources:\n{sources}      sql: >-\n        {sql}\n      sink: {sink}\n      trigger: {trigger}\n      \
             checkpointLocation: checkpoint-{name}\n{fields}"
        )
    }
}

/// A job named `job` with one task named `task` that is retried quickly.
pub fn job(queries: &[Query<'_>]) -> String {
    let queries: String = queries.iter().map(Query::yaml).collect();
    format!(
        "apiVersion: weir.dev/v1alpha1\nkind: StreamingJob\nmetadata: {{name: job}}\nspec:\n  trigger: {{continuous: {{}}}}\n  \
         restart: {{initialDelay: 500ms, maxDelay: 2s, minInterval: 100ms}}\n  \
         taskRetry: {{maxRetries: 100, initialDelay: 500ms, maxDelay: 2s}}\n  tasks:\n  - name: task\n    queries:\n{queries}"
    )
}

/// The same without retries, for tests of a failure.
pub fn job_without_retries(queries: &[Query<'_>]) -> String {
    job(queries).replace("maxRetries: 100, initialDelay: 500ms, maxDelay: 2s", "maxRetries: 0")
}
