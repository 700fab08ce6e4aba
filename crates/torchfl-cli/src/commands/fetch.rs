use std::cell::RefCell;
use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::ProgressBar;
use serde_json::{Value, json};
use torchfl_fetch::{
    Client, Found, Installer, Mirror, Netrc, Network, Progress, Proxies, Settings, State, Want, What, Whole,
};
use torchfl_manifest::resolve::{Input, InputFile, Way};
use torchfl_manifest::{Manifest, Request, resolve};
use torchfl_wheel::{Sha256, Version};

use crate::Outcome;
use crate::args::{Fetch, InstallerName};
use crate::commands::vendor;
use crate::report::{self, Failure};
use crate::screen::{Screen, megabytes};

pub(crate) fn run(args: &Fetch, screen: &Screen) -> Result<Outcome, Failure> {
    let (manifest, _) = vendor::load(&args.which)?;
    let items = items(args, &manifest)?;
    let mirrors: Vec<_> = args.mirror.iter().map(|given| Mirror::parse(given)).collect::<Result<_, _>>()?;
    // What is not needed is not looked at, so that nothing of it can be wrong.
    let logins = if mirrors.iter().any(|mirror| matches!(mirror, Mirror::Http(_))) && !args.offline {
        netrc()?
    } else {
        Netrc::default()
    };
    let client = if args.offline { None } else { Some(Client::new(&network(args, logins)?)?) };
    let packages = items.iter().any(|item| matches!(item.want.what, What::Package { .. }));
    let installer = if packages && !args.offline { installer(args)? } else { None };
    let settings = Settings {
        dest: args.dest.clone(),
        mirrors,
        client: client.as_ref(),
        installer: installer.as_ref(),
        dry_run: args.dry_run,
    };
    let show = Show { screen, bar: RefCell::new(None) };
    let (mut rows, mut paths, mut complete) = (Vec::new(), Vec::new(), true);
    for item in &items {
        let row = match torchfl_fetch::fetch(&item.want, &settings, &show) {
            Ok(found) => {
                let row = item.found(&found, args);
                match found.state {
                    State::Missing => complete = false,
                    State::Present(whole) | State::Fetched(whole, _) => {
                        paths.push(whole.path.to_string_lossy().into_owned());
                    }
                }
                row
            }
            Err(error) if error.is_finding() => {
                complete = false;
                item.wrong(error)
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(text) = row["told"].as_str() {
            screen.note(text);
        }
        rows.push(row);
    }
    for row in &mut rows {
        row.as_object_mut().map(|row| row.remove("told"));
    }
    if screen.json || !paths.is_empty() {
        screen.data(&json!({ "files": rows }), |_| paths.join("\n"))?;
    }
    Ok(if complete { Outcome::Done } else { Outcome::Findings })
}

/// A file, and the input that it is of.
struct Item {
    input: Input,
    file: InputFile,
    want: Want,
}

/// The files that are asked for, with the sums that the command line says.
fn items(args: &Fetch, manifest: &Manifest) -> Result<Vec<Item>, Failure> {
    let resolved = resolve(
        manifest,
        &Request { python: args.python.clone(), arch: args.arch.clone(), ..Request::default() },
    )?;
    let python =
        args.python.clone().map_or_else(|| one("Python", "--python TAG", &resolved.python_tags, None), Ok)?;
    let arches: Vec<String> = resolved.target.arch.iter().map(ToString::to_string).collect();
    let arch = one("processor", "--arch ARCH", &arches, Some(env::consts::ARCH))?;
    let request = Request { python: Some(python), arch: Some(arch), ..Request::default() };
    let roles: Vec<String> = args.role.iter().map(|role| format!("{role:?}").to_lowercase()).collect();
    let mut items = Vec::new();
    for input in resolve(manifest, &request)?.inputs {
        if !roles.is_empty() && !roles.iter().any(|role| role == input.role.as_str()) {
            continue;
        }
        for file in &input.files {
            items.push(Item { want: want(&input, file)?, input: input.clone(), file: file.clone() });
        }
    }
    if items.is_empty() {
        let role = if roles.is_empty() { String::new() } else { format!(" of role {}", roles.join(", ")) };
        return Err(report::Error::NoInput { role }.into());
    }
    for given in &args.sha256 {
        let fault = |why: &str| report::Error::Option {
            option: "--sha256",
            given: given.clone(),
            why: why.to_owned(),
        };
        let (name, sum) = given.rsplit_once('=').ok_or_else(|| fault("NAME=SUM is wanted"))?;
        let sum: Sha256 = sum.parse().map_err(|why: String| fault(&why))?;
        let mut hits = items.iter_mut().filter(|item| item.is_called(name));
        let Some(item) = hits.next() else {
            return Err(fault("nothing that is asked for has this name").into());
        };
        if hits.next().is_some() {
            return Err(fault("more than one file has this name: give the file's own").into());
        }
        item.want.sha256 = Some(sum);
    }
    for name in &args.allow_unhashed {
        let mut hits = items.iter_mut().filter(|item| item.is_called(name)).peekable();
        if hits.peek().is_none() {
            let why = "nothing that is asked for has this name".to_owned();
            return Err(report::Error::Option { option: "--allow-unhashed", given: name.clone(), why }.into());
        }
        hits.for_each(|item| item.want.unhashed = true);
    }
    Ok(items)
}

/// The one that is offered, or `likely`, if it is among them.
fn one(
    what: &'static str,
    option: &'static str,
    offered: &[String],
    likely: Option<&str>,
) -> Result<String, Failure> {
    match offered {
        [one] => Ok(one.clone()),
        _ => match likely.filter(|likely| offered.iter().any(|one| one == likely)) {
            Some(likely) => Ok(likely.to_owned()),
            None => Err(report::Error::Choose { what, option, offered: offered.join(", ") }.into()),
        },
    }
}

fn want(input: &Input, file: &InputFile) -> Result<Want, Failure> {
    let what = match (&input.way, &file.name) {
        (Way::Package { package, version }, _) => What::Package {
            name: package.clone(),
            version: version.parse::<Version>().map_err(|error| std::io::Error::other(error.to_string()))?,
            python: file.python.clone(),
            arch: file.arch.clone(),
        },
        (Way::File { .. }, name) => What::File { name: name.clone().unwrap_or_default() },
    };
    let sum = file.sha256.as_ref().map(|sum| sum.parse::<Sha256>()).transpose();
    let made = matches!(&input.way, Way::File { made: Some(_), .. });
    Ok(Want { what, sha256: sum.map_err(std::io::Error::other)?, unhashed: made })
}

impl Item {
    fn is_called(&self, name: &str) -> bool {
        let package = match &self.want.what {
            What::Package { name, .. } => Some(name.as_str()),
            What::File { .. } => None,
        };
        [Some(self.input.role.as_str()), package, self.file.name.as_deref()].contains(&Some(name))
    }

    /// One file of the answer; `told` is what people are told of it.
    fn row(&self, state: &str, whole: Option<&Whole>, told: &str) -> Value {
        json!({
            "role": self.input.role,
            "name": whole.map_or_else(|| self.file.name.clone(), |whole| {
                Some(whole.path.file_name().unwrap_or_default().to_string_lossy().into_owned())
            }),
            "wanted": self.want.what.to_string(),
            "python": self.file.python,
            "arch": self.file.arch,
            "path": whole.map(|whole| whole.path.to_string_lossy()),
            "sha256": whole.map_or(self.want.sha256, |whole| Some(whole.sha256)),
            "bytes": whole.map(|whole| whole.bytes),
            "source": null,
            "state": state,
            "tried": [],
            "instructions": null,
            "error": null,
            "told": format!("{}: {told}", self.input.role),
        })
    }

    fn found(&self, found: &Found, args: &Fetch) -> Value {
        let sum = |whole: &Whole| match self.want.sha256 {
            Some(_) => format!("{}, sha256 is right", megabytes(whole.bytes)),
            None => format!("{}, sha256 {}, which nobody vouches for", megabytes(whole.bytes), whole.sha256),
        };
        let tried: Vec<Value> =
            found.tried.iter().map(|tried| json!({ "place": tried.place, "why": tried.why })).collect();
        let mut row = match &found.state {
            State::Present(whole) => self.row(
                "present",
                Some(whole),
                &format!("{} is there ({})", whole.path.display(), sum(whole)),
            ),
            State::Fetched(whole, source) => {
                let told = format!("{} comes from {source} ({})", whole.path.display(), sum(whole));
                let mut row = self.row("fetched", Some(whole), &told);
                row["source"] = json!(source);
                row
            }
            State::Missing => {
                let mut told = format!("{} is missing", self.want.what);
                for tried in &found.tried {
                    let _ = write!(told, "\n  {}: {}", tried.place, tried.why);
                }
                let instructions = self.instructions(args);
                told += &lines(&instructions);
                let mut row = self.row("missing", None, &told);
                row["instructions"] = instructions;
                row
            }
        };
        row["tried"] = json!(tried);
        row
    }

    fn wrong(&self, error: torchfl_fetch::Error) -> Value {
        let (code, hint) = (error.code(), error.hint());
        let failure = Failure::from(error);
        let hint = hint.map(|hint| format!("\n  help: {hint}")).unwrap_or_default();
        let mut row = self.row("wrong", None, &format!("{failure} ({code}){hint}"));
        row["error"] = failure.json()["error"].clone();
        row
    }

    /// Which file to bring, from where, and where to put it.
    fn instructions(&self, args: &Fetch) -> Value {
        let dest = env::current_dir().map_or_else(|_| args.dest.clone(), |folder| folder.join(&args.dest));
        let from = match &self.input.way {
            Way::File { login: Some(login), .. } => Some(format!("{login}, after signing in")),
            Way::File { made: Some(made), .. } => Some(format!("nobody publishes it: {made}")),
            Way::File { .. } => None,
            Way::Package { .. } => Some("a package index that has it, or a folder with its wheel".to_owned()),
        };
        json!({
            "bring": self.want.what.to_string(),
            "sha256": self.want.sha256,
            "from": from,
            "put_into": dest.to_string_lossy(),
        })
    }
}

/// The same for people.
fn lines(instructions: &Value) -> String {
    let bring = instructions["bring"].as_str().unwrap_or_default();
    let star = if bring.contains('*') { ", where * stands for what is not known" } else { "" };
    let mut text = format!("\n  bring:    {bring}{star}");
    if let Some(sum) = instructions["sha256"].as_str() {
        let _ = write!(text, "\n  sha256:   {sum}");
    }
    let from = instructions["from"].as_str().unwrap_or("whoever has it: that is not known here");
    let put = instructions["put_into"].as_str().unwrap_or_default();
    let _ = write!(text, "\n  from:     {from}\n  put into: {put}, or name the folder that has it: --mirror");
    text
}

/// What the environment and the command line say of the network.
fn network(args: &Fetch, netrc: Netrc) -> Result<Network, Failure> {
    // Lower case first, as curl has it; an empty one says: none.
    let variable = |names: [&str; 2]| {
        names
            .iter()
            .find_map(env::var_os)
            .and_then(|value| value.into_string().ok())
            .filter(|value| !value.is_empty())
    };
    let all = variable(["all_proxy", "ALL_PROXY"]);
    // HTTP_PROXY in capitals is what a request header "Proxy" sets for CGI programs.
    let cgi = env::var_os("REQUEST_METHOD").is_some();
    let http = variable(["http_proxy", if cgi { "http_proxy" } else { "HTTP_PROXY" }]);
    let authorities = args.ca_file.as_ref().map(fs_err::read).transpose()?;
    Ok(Network {
        proxies: Proxies {
            http: http.or_else(|| all.clone()),
            https: variable(["https_proxy", "HTTPS_PROXY"]).or(all),
            except: variable(["no_proxy", "NO_PROXY"]),
        },
        netrc,
        authorities,
        patience: Duration::from_secs(args.timeout),
        retries: args.retries,
        ..Network::default()
    })
}

/// The file that NETRC names, else `~/.netrc`, if there is one.
fn netrc() -> Result<Netrc, Failure> {
    let named = env::var_os("NETRC").filter(|name| !name.is_empty()).map(PathBuf::from);
    let own = || env::home_dir().map(|home| home.join(".netrc")).filter(|path| path.is_file());
    let Some(path) = named.or_else(own) else { return Ok(Netrc::default()) };
    let text = fs_err::read_to_string(&path)?;
    Netrc::parse(&text).map_err(|source| report::Error::Netrc { path, source }.into())
}

/// Who asks the package index: the one that is named, else pip, else uv, else nobody.
fn installer(args: &Fetch) -> Result<Option<Installer>, Failure> {
    let (python, index) = (args.interpreter.clone(), args.index_url.clone());
    let pip = || Installer::Pip { python: python.clone(), index: index.clone() };
    let uv = || {
        let own = ["UV_DEFAULT_INDEX", "UV_INDEX_URL"].iter().find_map(|name| env::var(name).ok());
        Installer::Uv {
            program: Path::new("uv").to_owned(),
            python: python.clone(),
            index: index.clone().or(own),
        }
    };
    let chosen = match args.installer {
        Some(InstallerName::Pip) => pip(),
        Some(InstallerName::Uv) => uv(),
        None => return Ok([pip(), uv()].into_iter().find(Installer::is_there)),
    };
    if chosen.is_there() {
        return Ok(Some(chosen));
    }
    let (program, why) = (chosen.to_string(), "it does not answer to --version".to_owned());
    Err(torchfl_fetch::Error::Installer { program, why }.into())
}

/// Bars and notes on stderr.
struct Show<'a> {
    screen: &'a Screen,
    bar: RefCell<Option<ProgressBar>>,
}

impl Progress for Show<'_> {
    fn start(&self, name: &str, have: u64, total: Option<u64>) {
        self.stop();
        let bar = self.screen.transfer(name, total);
        bar.set_position(have);
        bar.reset_eta();
        *self.bar.borrow_mut() = Some(bar);
    }

    fn advance(&self, bytes: u64) {
        if let Some(bar) = &*self.bar.borrow() {
            bar.inc(bytes);
        }
    }

    fn stop(&self) {
        if let Some(bar) = self.bar.borrow_mut().take() {
            bar.finish_and_clear();
        }
    }

    fn note(&self, text: &str) {
        self.stop();
        self.screen.note(text);
    }
}
