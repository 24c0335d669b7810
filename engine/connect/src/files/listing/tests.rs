//! Which files are found.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::options::Options;
use crate::testing::storage;

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new(files: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        Self { dir }
    }

    async fn list(&self, below: &str, options: &[(&str, &str)]) -> Result<Vec<String>> {
        let root = self.dir.path().to_str().unwrap();
        let options = options.iter().map(|(name, value)| (*name, value.replace('$', root)));
        let options = ListingOptions::parse(&Options::new(options)).unwrap();
        let location = Location::new(&format!("{root}{below}"), &storage()).unwrap();
        let listed = list(&location, &options, &storage()).await?;
        Ok(listed.files.iter().map(|file| format!("/{}", file.path)[root.len()..].to_owned()).collect())
    }
}

#[tokio::test]
async fn hidden_names_hide_what_is_below_them() {
    let world = World::new(&["a.json", "_b.json", ".c.json", "_d/e.json", "d._COPYING_", "_k=1/f.json"]);
    assert_eq!(world.list("", &[("recursiveFileLookup", "true")]).await.unwrap(), ["/_k=1/f.json", "/a.json"]);
    assert!(is_hidden("_x") && !is_hidden("_metadata") && !is_hidden("x_"));
}

#[tokio::test]
async fn depth_depends_on_partitions_and_recursion() {
    let world = World::new(&["a.json", "sub/b.json", "sub/c.csv"]);
    assert_eq!(world.list("", &[]).await.unwrap(), ["/a.json"]);
    assert_eq!(
        world.list("/", &[("recursiveFileLookup", "true"), ("pathGlobFilter", "*.json")]).await.unwrap(),
        ["/a.json", "/sub/b.json"]
    );
    assert_eq!(world.list("/sub/b.json", &[]).await.unwrap(), ["/sub/b.json"]);
    let world = World::new(&["k=1/a.json", "k=2/l=3/b.json"]);
    assert_eq!(world.list("", &[]).await.unwrap(), ["/k=1/a.json", "/k=2/l=3/b.json"]);
}

#[tokio::test]
async fn globs_name_files_and_folders() {
    let world = World::new(&["2024/a.json", "2024/b.csv", "2025/c.json", "x/2024/d.json"]);
    assert_eq!(world.list("/20*/*.json", &[]).await.unwrap(), ["/2024/a.json", "/2025/c.json"]);
    assert_eq!(world.list("/{2024,x}", &[]).await.unwrap(), ["/2024/a.json", "/2024/b.csv"]);
    assert!(world.list("/nope/*", &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_base_path_moves_where_partitions_begin() {
    let world = World::new(&["t/k=1/a.json", "t/k=2/b.json"]);
    let root = world.dir.path().to_str().unwrap();
    let options = ListingOptions::parse(&Options::new([("basePath", format!("{root}/t"))])).unwrap();
    let location = Location::new(&format!("{root}/t/k=1"), &storage()).unwrap();
    let listed = list(&location, &options, &storage()).await.unwrap();
    let values = partitions::values_of(&listed.files[0].path, listed.files[0].root_depth);
    assert_eq!(values, [("k".to_owned(), Some("1".to_owned()))]);
    assert!(world.list("/t/k=1", &[("basePath", "/elsewhere")]).await.is_err());
}

#[tokio::test]
async fn the_log_of_a_sink_decides() {
    let world = World::new(&["a.json", "b.json", "_spark_metadata/1"]);
    let line = |name: &str| {
        let uri = format!("file://{}/{name}", world.dir.path().display());
        serde_json::to_string(&SinkFileStatus::added(uri, 6, 5)).unwrap()
    };
    std::fs::write(world.dir.path().join("_spark_metadata/0"), format!("v1\n{}", line("b.json"))).unwrap();
    std::fs::write(world.dir.path().join("_spark_metadata/1"), "v1").unwrap();
    assert_eq!(world.list("", &[]).await.unwrap(), ["/b.json"]);
}
