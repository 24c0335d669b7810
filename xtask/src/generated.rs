//! The files that are generated from code: committed, never edited, checked by tidy.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A file and what it must contain.
pub struct Generated {
    pub path: &'static str,
    pub text: String,
}

/// Every generated file. A new one is added here and nowhere else.
pub fn all() -> Vec<Generated> {
    vec![
        Generated { path: "charts/weir-crds/crds/weir.dev_streamingjobs.yaml", text: weir_crds::resource::crd_yaml() },
        Generated { path: "docs/conditions.md", text: weir_supervisor::conditions::reference_markdown() },
        Generated { path: "docs/events.md", text: weir_supervisor::events::reference_markdown() },
        Generated { path: "docs/manifest.md", text: weir_crds::resource::manifest_markdown() },
        Generated { path: "docs/options.md", text: weir_crds::options::reference_markdown() },
    ]
}

/// Writes all files and returns the paths of those that changed.
pub fn write_all(repository: &Path) -> Result<Vec<PathBuf>> {
    let mut changed = Vec::new();
    for file in all() {
        let path = repository.join(file.path);
        if fs::read_to_string(&path).is_ok_and(|text| text == file.text) {
            continue;
        }
        let folder = path.parent().context("a generated file has a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        fs::write(&path, &file.text).with_context(|| format!("writing {}", path.display()))?;
        changed.push(path);
    }
    Ok(changed)
}
