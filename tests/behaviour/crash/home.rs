//! Where a crash test keeps its checkpoint and its table: on the disk, or in an
//! S3 store that fails now and then.
//!
//! Tasks reach the store through the proxy that fails; who verifies and judges
//! reaches it directly, and PySpark sees a table's copy on the disk.

use std::fs;
use std::path::PathBuf;

use object_store::ObjectStoreExt;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use weir_testkit::store::faults::{Fault, Faulty, Plan};
use weir_testkit::store::{BUCKET, Store, environment};
use weir_testkit::unique_name;

use crate::support::Place;

pub enum Home {
    Disk,
    Store { name: String, folder: String, proxy: Faulty },
}

impl Home {
    pub fn in_store(name: &str, plan: Plan) -> Self {
        let proxy = Faulty::before(Store::shared().port(), plan).unwrap();
        Self::Store { name: name.to_owned(), folder: unique_name(name), proxy }
    }

    /// What the manifest calls a folder.
    pub fn location(&self, name: &str) -> String {
        match self {
            Self::Disk => name.to_owned(),
            Self::Store { folder, .. } => format!("s3://{BUCKET}/{folder}/{name}"),
        }
    }

    /// Environment variables of a task.
    pub fn of_tasks(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Disk => Vec::new(),
            Self::Store { proxy, .. } => environment(proxy.port()),
        }
    }

    /// Those of a command that looks at the outcome.
    pub fn of_judges(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Disk => Vec::new(),
            Self::Store { .. } => environment(Store::shared().port()),
        }
    }

    /// Whether a task may end with a failure that it did not bring about.
    pub fn fails(&self) -> bool {
        matches!(self, Self::Store { .. })
    }

    /// Leaves everything behind.
    pub fn begin_anew(&mut self, place: &Place) {
        match self {
            Self::Disk => {
                for name in ["checkpoint", "table"] {
                    fs::remove_dir_all(place.path().join(name)).unwrap_or_default();
                }
            }
            Self::Store { name, folder, .. } => *folder = unique_name(name),
        }
    }

    /// A folder as it is now, on the disk.
    pub fn seen(&self, place: &Place, name: &str) -> PathBuf {
        match self {
            Self::Disk => place.path().join(name),
            Self::Store { folder, .. } => {
                let copy = place.path().join("seen").join(name);
                fs::remove_dir_all(&copy).unwrap_or_default();
                download(&format!("{folder}/{name}"), &copy);
                copy
            }
        }
    }

    /// Tells a store that failed from one that only looked as if.
    pub fn check_faults(&self) {
        if let Self::Store { proxy, .. } = self {
            let done = proxy.done();
            println!("faults: {done:?}");
            let unseen = [Fault::CutAfter, Fault::ResetAfter, Fault::ErrorAfter];
            assert!(unseen.iter().any(|fault| done.contains_key(fault)), "no write took effect unseen: {done:?}");
        }
    }
}

/// Copies all objects below a prefix into a folder.
pub fn download(prefix: &str, to: &std::path::Path) {
    let builder =
        environment(Store::shared().port()).into_iter().fold(AmazonS3Builder::new().with_bucket_name(BUCKET), |builder, (key, value)| {
            builder.with_config(key.to_lowercase().parse().unwrap(), value)
        });
    let store = builder.build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let prefix = Path::parse(prefix).unwrap();
        let mut found = object_store::ObjectStore::list(&store, Some(&prefix));
        while let Some(object) = futures::StreamExt::next(&mut found).await {
            let path = object.unwrap().location;
            let file = to.join(path.as_ref()[prefix.as_ref().len()..].trim_start_matches('/'));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, store.get(&path).await.unwrap().bytes().await.unwrap()).unwrap();
        }
    });
}
