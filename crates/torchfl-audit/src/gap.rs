//! The core gap: what a fork's core defines, the stock core lacks, and somebody in the bundle needs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;
use torchfl_loader::{Entry, Files, Object};

use crate::Error;
use crate::dist::Dist;
use crate::site::{SITE, subject_files};

/// Two torches to compare.
#[derive(Debug, Clone)]
pub struct GapRequest {
    /// The vendor's torch: a wheel or a folder.
    pub vendor: PathBuf,
    /// The stock torch: a wheel or a folder.
    pub stock: PathBuf,
    /// A plugin that was compiled against the vendor's headers.
    pub plugin: Option<PathBuf>,
    /// A folder for unlinked files.
    pub scratch: PathBuf,
    /// Threads that read.
    pub threads: usize,
}

/// What a swap of the core would be for.
#[derive(Debug, Clone, Serialize)]
pub struct Gap {
    /// Libraries that both torches have: the core.
    pub core: Vec<String>,
    /// Libraries that the vendor's torch alone has.
    pub extra: Vec<String>,
    /// Number of symbols that the extra libraries import from the core.
    pub imported: usize,
    /// The gap, by symbol.
    pub missing: Vec<Missing>,
    /// Core symbols that the extra libraries import and whose data has another size in the stock core.
    pub resized: Vec<Missing>,
}

/// A symbol that the stock core lacks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Missing {
    /// The symbol.
    pub symbol: String,
    /// The library of the vendor's core that defines it.
    pub core: String,
    /// The libraries that need it.
    pub needed_by: Vec<String>,
    /// Not a function, so that no shim can stand in for it: data, or a symbol that does not say what it is.
    pub data: bool,
}

/// Works out the gap.
pub fn core_gap(request: &GapRequest) -> Result<Gap, Error> {
    let vendor = Libraries::of(&crate::site::torch(&request.vendor, &request.scratch)?, request.threads)?;
    let stock = Libraries::of(&crate::site::torch(&request.stock, &request.scratch)?, request.threads)?;
    let core: Vec<String> =
        vendor.names().filter(|name| stock.get(name).is_some()).map(str::to_owned).collect();
    let extra: Vec<String> =
        vendor.names().filter(|name| stock.get(name).is_none()).map(str::to_owned).collect();
    let plugin = request.plugin.as_ref().map(|path| {
        let file = torchfl_elf::FileAt::open(path).map_err(Error::Io)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let object =
            Object::read(&file, &name).map_err(|source| Error::Library { path: path.clone(), source })?;
        Ok::<_, Error>((name, object))
    });
    let plugin = plugin.transpose()?;
    if core.is_empty() {
        return Err(Error::NoCore { vendor: request.vendor.clone(), stock: request.stock.clone() });
    }
    if extra.is_empty() && plugin.is_none() {
        return Err(Error::NoExtra { vendor: request.vendor.clone(), stock: request.stock.clone() });
    }
    let theirs = definitions(core.iter().filter_map(|name| Some((name.as_str(), vendor.get(name)?))));
    let ours = definitions(stock.0.iter().map(|(name, object)| (name.as_str(), object.as_ref())));
    let own = definitions(extra.iter().filter_map(|name| Some((name.as_str(), vendor.get(name)?))));
    let needy = extra.iter().filter_map(|name| Some((name.as_str(), vendor.get(name)?)));
    let needy = needy.chain(plugin.as_ref().map(|(name, object)| (name.as_str(), object)));

    let mut imported = BTreeSet::new();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut resized: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let wanted: Vec<(String, &str)> = needy
        .flat_map(|(name, object)| imports(object).into_iter().map(move |symbol| (symbol, name)))
        .collect();
    for (symbol, by) in &wanted {
        let Some(there) = theirs.get(symbol).filter(|_| !own.contains_key(symbol)) else { continue };
        imported.insert(symbol);
        match ours.get(symbol) {
            None => drop(missing.entry(symbol).or_default().insert(by)),
            Some(here) if here.data.zip(there.data).is_some_and(|(ours, theirs)| ours != theirs) => {
                resized.entry(symbol).or_default().insert(by);
            }
            Some(_) => {}
        }
    }
    let told = |map: BTreeMap<&str, BTreeSet<&str>>| {
        let one = |(symbol, by): (&str, BTreeSet<&str>)| Missing {
            symbol: symbol.to_owned(),
            core: theirs.get(symbol).map(|there| there.library.clone()).unwrap_or_default(),
            needed_by: by.into_iter().map(str::to_owned).collect(),
            data: theirs.get(symbol).is_some_and(|there| !there.function),
        };
        map.into_iter().map(one).collect()
    };
    Ok(Gap { imported: imported.len(), missing: told(missing), resized: told(resized), core, extra })
}

/// The libraries of a torch's `lib` folder, by file name.
struct Libraries(BTreeMap<String, std::sync::Arc<Object>>);

impl Libraries {
    fn of(dist: &Dist, threads: usize) -> Result<Self, Error> {
        let mut files = Files::new();
        dist.mount(&mut files, SITE);
        let mut found = BTreeMap::new();
        for path in subject_files(&files, dist, threads)? {
            let Some(name) = path.strip_prefix("torch/lib/").filter(|name| !name.contains('/')) else {
                continue;
            };
            if let Entry::File(entry) = files.entry(&format!("{SITE}/{path}"))
                && let Ok(object) = files.library(&entry)
            {
                found.insert(name.to_owned(), object);
            }
        }
        dist.trouble()?;
        Ok(Self(found))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    fn get(&self, name: &str) -> Option<&Object> {
        self.0.get(name).map(std::convert::AsRef::as_ref)
    }
}

struct Definition {
    library: String,
    /// Size of an object; functions may differ.
    data: Option<u64>,
    function: bool,
}

fn definitions<'a>(libraries: impl Iterator<Item = (&'a str, &'a Object)>) -> BTreeMap<String, Definition> {
    const OBJECT: u8 = 1;
    const FUNCTIONS: [u8; 2] = [2, 10]; // STT_FUNC, STT_GNU_IFUNC
    let mut all = BTreeMap::new();
    for (name, object) in libraries {
        for export in object.symbols.exports() {
            let data = (export.kind == OBJECT).then_some(export.size);
            let function = FUNCTIONS.contains(&export.kind);
            all.entry(export.name).or_insert_with(|| Definition { library: name.to_owned(), data, function });
        }
    }
    all
}

/// Names that a library looks for in others, those that may stay undefined left out.
fn imports(object: &Object) -> BTreeSet<String> {
    let symbols = &object.symbols;
    (1..symbols.len() as u32)
        .filter(|index| symbols.is_undefined(*index) && !symbols.is_weak(*index))
        .map(|index| symbols.text(index))
        .collect()
}
