//! `weir-standin`: answers to `weir task` and `weir check` as tests want it; see `weir_testcluster::standin`.

fn main() {
    std::process::exit(weir_testcluster::standin::run(std::env::args().skip(1).collect()));
}
