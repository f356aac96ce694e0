//! The reference page and the schema file are what the code says now.

#[path = "../../../xtask/src/gendocs.rs"]
mod gendocs;

/// `FOREBAY_BLESS=1` writes them, as `cargo xtask gendocs` does.
#[test]
fn docs_are_up_to_date() {
    gendocs::run(std::env::var_os("FOREBAY_BLESS").is_none()).unwrap();
}
