use torchfl_site::Environment;

use crate::Outcome;
use crate::args::{Facade, Python};
use crate::report::Failure;
use crate::screen::Screen;

pub(crate) fn activate(args: &Python, screen: &Screen) -> Result<Outcome, Failure> {
    let environment = Environment::probe(&args.python)?;
    let switch = torchfl_site::activate(&environment, torchfl_build::ACTIVATE)?;
    screen.data(&switch, |s| {
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
    let switch = torchfl_site::deactivate(&environment)?;
    screen.data(&switch, |s| {
        if s.changed {
            format!("{}: removed", s.file.display())
        } else {
            format!("{}: is not there", s.file.display())
        }
    })?;
    Ok(Outcome::Done)
}

pub(crate) fn facade(args: &Facade, screen: &Screen) -> Result<Outcome, Failure> {
    let environment = Environment::probe(&args.python.python)?;
    torchfl_site::facade(&environment, &args.folder)?;
    let torch = args.folder.join("torch");
    let value = serde_json::json!({ "torch": torch, "cmake_prefix": torch.join("share/cmake") });
    screen.data(&value, |_| format!("{}: published", torch.display()))?;
    Ok(Outcome::Done)
}
