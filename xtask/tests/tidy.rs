//! The checkout keeps the house rules.

#[test]
fn the_house_is_tidy() {
    let findings = xtask::tidy::check_repository(&xtask::repository()).expect("the checks can run");
    let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{} broken rules:\n{}", list.len(), list.join("\n"));
}
