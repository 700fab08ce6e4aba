use std::borrow::Cow;

use serde::Serialize;
use serde_json::json;
use torchfl_site::{Environment, Switch};

use crate::Outcome;
use crate::args::{Facade, Python};
use crate::report::Failure;
use crate::screen::Screen;

pub(crate) fn activate(args: &Python, screen: &Screen) -> Result<Outcome, Failure> {
    let environment = Environment::probe(&args.python)?;
    let s = torchfl_site::activate(&environment, torchfl_build::ACTIVATE)?;
    screen.data(&told(&s), |_| {
        if s.changed {
            format!("{}: written; `import torch` now runs on torch_fl in every program", s.file.display())
        } else {
            format!("{}: is there already", s.file.display())
        }
    })?;
    Ok(Outcome::Done)
}

pub(crate) fn deactivate(args: &Python, screen: &Screen) -> Result<Outcome, Failure> {
    let environment = Environment::probe(&args.python)?;
    let s = torchfl_site::deactivate(&environment)?;
    screen.data(&told(&s), |_| {
        if s.changed {
            format!("{}: removed", s.file.display())
        } else {
            format!("{}: is not there", s.file.display())
        }
    })?;
    Ok(Outcome::Done)
}

/// [`Switch`] as JSON, which is UTF-8; a path need not be.
#[derive(Serialize)]
struct Told<'a> {
    file: Cow<'a, str>,
    changed: bool,
}

fn told(switch: &Switch) -> Told<'_> {
    Told { file: switch.file.to_string_lossy(), changed: switch.changed }
}

pub(crate) fn facade(args: &Facade, screen: &Screen) -> Result<Outcome, Failure> {
    let environment = Environment::probe(&args.python.python)?;
    torchfl_site::facade(&environment, &args.folder)?;
    let torch = args.folder.join("torch");
    let value = json!({ "torch": torch.to_string_lossy(), "cmake_prefix": torch.join("share/cmake").to_string_lossy() });
    screen.data(&value, |_| format!("{}: published", torch.display()))?;
    Ok(Outcome::Done)
}
