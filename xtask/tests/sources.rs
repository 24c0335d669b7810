//! Which files of a fresh clone get back the time that the last build saw: `scripts/sources.sh` in a repository of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

struct Place {
    _folder: tempfile::TempDir,
    repository: PathBuf,
    target: PathBuf,
}

fn run(program: &str, folder: &Path, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).current_dir(folder).status().expect("the program starts");
    assert!(status.success(), "{program} {arguments:?} ended with {status}");
}

impl Place {
    /// A repository with files `same` and `other`, an hour old, and a target folder that has been built into.
    fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        let (repository, target) = (folder.path().join("repository"), folder.path().join("target"));
        fs::create_dir_all(repository.join("scripts")).expect("a folder");
        fs::create_dir_all(target.join("debug/.fingerprint/weir")).expect("a folder");
        for script in ["lib.sh", "sources.sh"] {
            fs::copy(xtask::repository().join("scripts").join(script), repository.join("scripts").join(script)).expect("a copy");
        }
        run("git", &repository, &["init", "--quiet"]);
        let place = Place { _folder: folder, repository, target };
        for name in ["same", "other"] {
            place.write(name, name);
            place.set_time(name, hour_ago());
        }
        place
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.repository.join(name), content).expect("a file");
    }

    fn set_time(&self, name: &str, time: SystemTime) {
        File::options().append(true).open(self.repository.join(name)).and_then(|file| file.set_modified(time)).expect("a time");
    }

    fn is_old(&self, name: &str) -> bool {
        let time = fs::metadata(self.repository.join(name)).and_then(|file| file.modified()).expect("a time");
        time < SystemTime::now() - Duration::from_secs(1800)
    }

    fn sources(&self, action: &str) {
        run("bash", &self.repository, &["scripts/sources.sh", action, self.target.to_str().expect("a path of text")]);
    }

    /// As a fresh clone would have it: everything new, one file with another content.
    fn clone_anew(&self) {
        self.write("same", "same");
        self.write("other", "changed");
    }
}

fn hour_ago() -> SystemTime {
    SystemTime::now() - Duration::from_secs(3600)
}

#[test]
fn what_has_not_changed_gets_its_time_back_and_nothing_else_does() {
    let place = Place::new();
    place.sources("remember");
    place.clone_anew();
    place.sources("recall");
    assert!(place.is_old("same") && !place.is_old("other"));
}

#[test]
fn a_build_that_did_not_end_well_makes_everything_new() {
    let place = Place::new();
    place.sources("remember");
    place.sources("recall");
    place.clone_anew();
    place.sources("recall");
    assert!(!place.is_old("same"), "the first recall was of a build that nothing is known of");
}

#[test]
fn a_build_by_other_means_makes_everything_new() {
    let place = Place::new();
    place.sources("remember");
    let built = place.target.join("debug/.fingerprint/weir/invoked.timestamp");
    let file = File::create(built).expect("a file");
    file.set_modified(SystemTime::now() + Duration::from_secs(5)).expect("a time");
    place.clone_anew();
    place.sources("recall");
    assert!(!place.is_old("same"));
}

#[test]
fn a_checkout_at_another_place_stays_as_it_is() {
    let place = Place::new();
    place.sources("remember");
    place.clone_anew();
    let moved = place.repository.with_file_name("elsewhere");
    fs::rename(&place.repository, &moved).expect("a move");
    let place = Place { repository: moved, ..place };
    place.sources("recall");
    assert!(!place.is_old("same"));
}
