use std::fmt::Write as _;

use torchfl_audit::{Gap, GapRequest, Missing};

use crate::Outcome;
use crate::args::CoreGap;
use crate::commands::audit::{number, scratch, threads};
use crate::report::Failure;
use crate::screen::Screen;

pub(crate) fn run(args: CoreGap, screen: &Screen) -> Result<Outcome, Failure> {
    let request = GapRequest {
        vendor: args.vendor,
        stock: args.stock,
        plugin: args.plugin,
        scratch: scratch(),
        threads: threads(args.threads),
    };
    let spinner = screen.spinner("comparing the cores");
    let gap = torchfl_audit::core_gap(&request);
    spinner.finish_and_clear();
    let gap = gap?;
    screen.data(&gap, text)?;
    Ok(if is_empty(&gap) { Outcome::Done } else { Outcome::Findings })
}

fn is_empty(gap: &Gap) -> bool {
    gap.missing.is_empty() && gap.resized.is_empty()
}

/// A gap for people.
fn text(gap: &Gap) -> String {
    let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let mut text = format!("core: {}\nthe vendor's own: {}\n", list(&gap.core), list(&gap.extra));
    let _ = writeln!(text, "{} imported from the core", number(gap.imported, "symbol"));
    symbols("not in the stock core", &gap.missing, &mut text);
    symbols("of another size in the stock core", &gap.resized, &mut text);
    let _ = writeln!(text, "\n{}", conclusion(gap));
    text
}

fn symbols(heading: &str, symbols: &[Missing], text: &mut String) {
    if symbols.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{heading}:");
    for missing in symbols {
        let by = missing.needed_by.join(", ");
        let _ = writeln!(text, "  {} of {}, needed by {by}", missing.symbol, missing.core);
    }
}

fn conclusion(gap: &Gap) -> String {
    let resized = gap.resized.len();
    let data = gap.missing.iter().filter(|missing| missing.data).count();
    if is_empty(gap) {
        "swap = \"extra\" is enough: the stock core has all that the vendor's own libraries need".to_owned()
    } else if data > 0 {
        // A shim defines functions: data would need its content and its place in the core.
        format!(
            "swap = \"core\" is needed: {} no function, which no shim can give",
            if data == 1 { "1 symbol is".to_owned() } else { format!("{data} symbols are") }
        )
    } else if resized == 0 {
        let shim = number(gap.missing.len(), "symbol");
        format!("swap = \"core\" is needed, or a core-gap shim of {shim}")
    } else {
        // A shim adds symbols; the stock core's own data stays as large as it is.
        format!(
            "swap = \"core\" is needed: {} another size, which no shim can give",
            if resized == 1 { "1 symbol has".to_owned() } else { format!("{resized} symbols have") }
        )
    }
}
