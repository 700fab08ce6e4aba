//! `torchfl`: flags, progress, rendering. What it does is in the libraries.

mod args;
mod commands;
mod draft;
mod report;
mod screen;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Ci, Cli, Command, Vendor};
use report::Failure;
use screen::Screen;

/// How a command ended that could be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    Findings,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let screen = Screen::new(cli.json, cli.quiet);
    match run(cli.command, &screen) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        Err(failure) => {
            screen.failure(&failure);
            ExitCode::from(2)
        }
    }
}

fn run(command: Command, screen: &Screen) -> Result<Outcome, Failure> {
    match command {
        Command::Build(args) => commands::build::run(args, screen),
        Command::Fetch(args) => commands::fetch::run(&args, screen),
        Command::Audit(args) => commands::audit::run(args, screen),
        Command::Closure(args) => commands::closure::run(args, screen),
        Command::Why(args) => commands::why::run(args, screen),
        Command::CoreGap(args) => commands::core_gap::run(args, screen),
        Command::Shim(args) => commands::shim::run(args, screen),
        Command::Snapshot(args) => commands::snapshot::run(args, screen),
        Command::Inspect(args) => commands::inspect::run(&args, screen),
        Command::Patch(args) => commands::patch::run(args, screen),
        Command::Vendor(Vendor::List) => commands::vendor::list(screen),
        Command::Vendor(Vendor::Show(args)) => commands::vendor::show(&args, screen),
        Command::Vendor(Vendor::Check(which)) => commands::vendor::check(&which, screen),
        Command::Vendor(Vendor::Add(args)) => commands::vendor::add(&args, screen),
        Command::Vendor(Vendor::Schema) => commands::vendor::schema(screen),
        Command::Ci(Ci::Matrix(args)) => commands::ci::matrix(&args, screen),
        Command::Ci(Ci::Workflow(args)) => commands::ci::workflow(&args, screen),
        Command::Activate(args) => commands::site::activate(&args, screen),
        Command::Deactivate(args) => commands::site::deactivate(&args, screen),
        Command::Facade(args) => commands::site::facade(&args, screen),
    }
}
