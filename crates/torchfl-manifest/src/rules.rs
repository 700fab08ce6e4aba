//! Rules between the values of a manifest: what each says for itself, but not together.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;

use crate::decode::{Complaint, Context};
use crate::input;
use crate::model::{Bundle, Manifest, Shim, Symbols};
use crate::names::{Front, Library, PythonTag, ShimKind, Swap, matcher, search_entry};
use crate::problem::nearest;
use crate::runtime::runtime_apis;
use crate::spanned::Spanned;
use crate::triton;

/// Checks `manifest` as a whole. A rule is left out where one of its values could not be read.
pub(crate) fn check(manifest: &Manifest, context: &mut Context) {
    if manifest.schema.value != 1 && context.sound("schema") {
        let message = format!("this tool reads schema 1, not {}", manifest.schema);
        context.report_at(
            "schema".to_owned(),
            "E-MAN-002",
            manifest.schema.span.clone(),
            Complaint::new(message),
        );
    }
    lists(manifest, context);
    swap(manifest, context);
    front(manifest, context);
    if let Some(bundle) = &manifest.bundle {
        membership(manifest, bundle, context);
        search_path(manifest, bundle, context);
        elsewhere(manifest, bundle, context);
    }
    provided(manifest, context);
    triton::check(manifest, context);
    for (index, shim) in manifest.shim.iter().enumerate() {
        shim_keys(index, shim, context);
        shim_symbols(index, shim, context);
        shim_use(index, shim, manifest, context);
    }
    input::check(manifest, context);
}

pub(crate) fn report(
    context: &mut Context,
    key: &str,
    code: &'static str,
    span: &Range<usize>,
    message: String,
) {
    context.report_at(key.to_owned(), code, span.clone(), Complaint::new(message));
}

/// No list names a thing twice, and those that must say something do.
fn lists(manifest: &Manifest, context: &mut Context) {
    let Manifest { torch, python, target, .. } = manifest;
    once("torch.markers", &torch.markers, context);
    once("torch.rivals", &torch.rivals, context);
    once("python.tags", &python.tags.value, context);
    once("target.arch", &target.arch.value, context);
    if python.tags.is_empty() && context.sound("python.tags") {
        report(context, "python.tags", "E-MAN-012", &python.tags.span, "no python tag is given".to_owned());
    }
    if target.arch.is_empty() && context.sound("target.arch") {
        report(context, "target.arch", "E-MAN-012", &target.arch.span, "no processor is given".to_owned());
    }
    if let Some(bundle) = &manifest.bundle {
        once("bundle.required", &bundle.required, context);
        once("bundle.optional", &bundle.optional, context);
        once("bundle.include", &bundle.include, context);
        once("bundle.front", &bundle.front, context);
        once("bundle.never-duplicate", &bundle.never_duplicate, context);
        once("bundle.preload", &bundle.preload, context);
        once("bundle.search-path", &bundle.search_path, context);
        once("bundle.global", bundle.global.iter().map(|global| &global.library), context);
    }
    if let Some(host) = &manifest.host {
        once("host.driver", &host.driver, context);
        once("host.libraries", &host.libraries, context);
        once("host.dlopen", &host.dlopen, context);
        once("host.devices", &host.devices, context);
    }
    if let Some(ci) = &manifest.ci {
        once("ci.tests", &ci.tests, context);
        once("ci.python", &ci.python, context);
        let sound = context.sound("python.tags") && context.sound("ci.python");
        let offered = |tag: &PythonTag| python.tags.iter().any(|known| known.value == *tag);
        for tag in ci.python.iter().filter(|tag| sound && !offered(tag)) {
            let message = format!("`{tag}` is none of `python.tags`");
            report(context, "ci.python", "E-MAN-062", &tag.span, message);
        }
    }
    if let Some(runtime) = &manifest.runtime
        && context.sound("runtime.api")
        && !runtime_apis().any(|api| api == runtime.api.as_str())
    {
        let known: Vec<&str> = runtime_apis().collect();
        let message = format!("`{}` is none of {}", runtime.api, known.join(", "));
        report(context, "runtime.api", "E-MAN-013", &runtime.api.span, message);
    }
    once("shim", manifest.shim.iter().map(|shim| &shim.soname), context);
}

fn once<'a, T: Display + Ord + 'a>(
    key: &str,
    items: impl IntoIterator<Item = &'a Spanned<T>>,
    context: &mut Context,
) {
    let mut seen = std::collections::BTreeSet::new();
    for (index, item) in items.into_iter().enumerate() {
        if !seen.insert(&item.value) {
            report(
                context,
                &format!("{key}[{index}]"),
                "E-MAN-030",
                &item.span,
                format!("`{item}` is listed twice in {key}"),
            );
        }
    }
}

/// The vendor's own torch in front is refused at import where nothing tells it.
fn front(manifest: &Manifest, context: &mut Context) {
    let torch = &manifest.torch;
    let sound = context.sound("torch.front") && context.sound("torch.markers");
    if sound && *torch.front == Front::Vendor && torch.markers.is_empty() {
        let message = "front is the vendor's own torch, and no markers tell it from another";
        report(context, "torch.markers", "E-MAN-012", &torch.front.span, message.to_owned());
    }
}

/// What `torch.swap` asks of the rest.
fn swap(manifest: &Manifest, context: &mut Context) {
    if !context.sound("torch.swap") {
        return;
    }
    let swap = &manifest.torch.swap;
    if **swap != Swap::None && manifest.torch.front.value == Front::Vendor && context.sound("torch.front") {
        let message =
            format!("front is the vendor's own torch, and swap is `{swap}`: nothing is to be replaced");
        report(context, "torch.swap", "E-MAN-037", &swap.span, message);
    }
    match (&manifest.bundle, **swap) {
        (Some(bundle), Swap::None) if context.sound("bundle.dir") => {
            let message = "swap is `none`, and yet there is a bundle".to_owned();
            report(context, "bundle", "E-MAN-037", &bundle.dir.span, message);
        }
        (None, Swap::Core | Swap::Extra) => {
            let message = format!("swap is `{swap}`, and there is no [bundle] to take the libraries from");
            report(context, "torch.swap", "E-MAN-037", &swap.span, message);
        }
        (Some(bundle), Swap::Extra) if bundle.front.is_empty() && context.sound("bundle") => {
            let message = "swap is `extra`, and bundle.front is empty: the stock core is opened first, so it must \
                           be named";
            report(context, "torch.swap", "E-MAN-037", &swap.span, message.to_owned());
        }
        _ => {}
    }
}

/// Which list a library is in, and may be in.
fn membership(manifest: &Manifest, bundle: &Bundle, context: &mut Context) {
    let lists = [
        ("bundle.required", &bundle.required),
        ("bundle.optional", &bundle.optional),
        ("bundle.front", &bundle.front),
        ("bundle.never-duplicate", &bundle.never_duplicate),
    ];
    let mut home: BTreeMap<&str, &str> = BTreeMap::new();
    for (key, list) in lists {
        for (index, library) in list.iter().enumerate() {
            match home.get(library.as_str()) {
                // A library that a process has one copy of may well be bundled.
                Some(other) if *other != key && key != "bundle.never-duplicate" => {
                    let message = format!("`{library}` is in {other} as well");
                    report(context, &format!("{key}[{index}]"), "E-MAN-031", &library.span, message);
                }
                _ => {
                    home.insert(library, key);
                }
            }
        }
    }
    let bundled = || bundle.required.iter().chain(&bundle.optional);
    if let Some(probe) = &bundle.probe
        && context.sound("bundle.required")
        && context.sound("bundle.optional")
        && context.sound("bundle.probe")
        && !bundled().any(|library| library.value == probe.value)
    {
        let nearest = nearest(probe, bundled().map(|library| library.as_str()));
        let message = format!("probe `{probe}` is not bundled: it is in neither required nor optional");
        context.report_at(
            "bundle.probe".into(),
            "E-MAN-034",
            probe.span.clone(),
            Complaint { message, nearest },
        );
    }
    home.extend(manifest.shim.iter().map(|shim| (shim.soname.as_str(), "shim")));
    if lists.iter().all(|(key, _)| context.sound(key)) && context.sound("shim") {
        for (index, library) in bundle.preload.iter().enumerate() {
            if !home.contains_key(library.as_str()) {
                let nearest = nearest(library, home.keys().copied());
                let message = format!(
                    "`{library}` comes from nowhere: it is no shim, and not in required, optional, front or \
                     never-duplicate"
                );
                let complaint = Complaint { message, nearest };
                context.report_at(
                    format!("bundle.preload[{index}]"),
                    "E-MAN-032",
                    library.span.clone(),
                    complaint,
                );
            }
        }
        // In the front list a name has one purpose: to be opened.
        for (index, library) in bundle.front.iter().enumerate() {
            if context.sound("bundle.preload")
                && !bundle.preload.iter().any(|opened| opened.value == library.value)
            {
                let message = format!("`{library}` is in front, and preload does not open it");
                report(context, &format!("bundle.front[{index}]"), "E-MAN-035", &library.span, message);
            }
        }
    }
    if context.sound("bundle.preload") {
        for (index, global) in bundle.global.iter().enumerate() {
            let opened = || bundle.preload.iter().map(|library| library.as_str());
            if !opened().any(|library| library == global.library.as_str()) {
                let nearest = nearest(&global.library, opened());
                let message = format!("`{}` is not in preload, so nothing opens it globally", global.library);
                let span = global.library.span.clone();
                context.report_at(
                    format!("bundle.global[{index}]"),
                    "E-MAN-033",
                    span,
                    Complaint { message, nearest },
                );
            }
        }
    }
}

fn search_path(manifest: &Manifest, bundle: &Bundle, context: &mut Context) {
    let has_roots = manifest.sdk.as_ref().is_some_and(|sdk| !sdk.roots.is_empty());
    for (index, entry) in bundle.search_path.iter().enumerate() {
        let key = format!("bundle.search-path[{index}]");
        if let Err((code, complaint)) = search_entry(entry) {
            context.report_at(key, code, entry.span.clone(), complaint);
        } else if entry.contains("{sdk}") && !has_roots && context.sound("sdk") {
            let message = format!("`{entry}` needs the SDK's place, and [sdk] has no roots");
            report(context, &key, "E-MAN-042", &entry.span, message);
        }
    }
}

/// A bundled library is nobody else's, and neither is a shim.
fn elsewhere(manifest: &Manifest, bundle: &Bundle, context: &mut Context) {
    let mut bundled: BTreeMap<&str, &Spanned<Library>> =
        bundle.required.iter().chain(&bundle.optional).map(|library| (library.as_str(), library)).collect();
    for (index, shim) in manifest.shim.iter().enumerate() {
        if bundled.contains_key(shim.soname.as_str()) {
            let message = format!("`{}` is bundled and generated: one of them is wrong", shim.soname);
            report(context, &format!("shim[{index}].soname"), "E-MAN-036", &shim.soname.span, message);
        }
    }
    bundled.extend(manifest.shim.iter().map(|shim| (shim.soname.as_str(), &shim.soname)));
    let all = manifest.provided.iter().enumerate();
    for (index, library) in
        all.flat_map(|(index, provided)| provided.libraries.iter().map(move |one| (index, one)))
    {
        if bundled.contains_key(library.as_str()) {
            let message =
                format!("`{library}` is bundled and provided by another wheel: one of them is wrong");
            report(context, &format!("provided[{index}].libraries"), "E-MAN-036", &library.span, message);
        }
    }
    let Some(host) = &manifest.host else { return };
    for (key, globs) in [("host.driver", &host.driver), ("host.libraries", &host.libraries)] {
        for (index, glob) in globs.iter().enumerate() {
            let Ok(matcher) = matcher(glob) else { continue };
            let hit = bundled.keys().find(|library| matcher.is_match(library));
            if let Some(library) = hit {
                let message =
                    format!("`{glob}` matches `{library}`, which is bundled: it cannot stay on the host too");
                report(context, &format!("{key}[{index}]"), "E-MAN-036", &glob.span, message);
            }
        }
    }
}

/// A versioned forwarder has somewhere to go and a version; nothing else has.
fn shim_keys(index: usize, shim: &Shim, context: &mut Context) {
    if !context.sound(&format!("shim[{index}]")) {
        return;
    }
    let forwards = *shim.kind == ShimKind::VersionedForwarder;
    let keys = [
        ("forward-to", shim.forward_to.as_ref().map(|to| &to.span)),
        ("version", shim.version.as_ref().map(|version| &version.span)),
    ];
    for (key, span) in keys {
        let message = match span {
            None if forwards => format!("a {} needs `{key}`", shim.kind),
            Some(_) if !forwards => format!("a {} forwards nothing, and has no `{key}`", shim.kind),
            _ => continue,
        };
        let span = span.unwrap_or(&shim.kind.span);
        report(context, &format!("shim[{index}].{key}"), "E-MAN-038", span, message);
    }
    if shim.forward_to.as_ref().is_some_and(|to| to.value == shim.soname.value) {
        let message = format!("`{}` would forward to itself", shim.soname);
        report(context, &format!("shim[{index}].forward-to"), "E-MAN-038", &shim.soname.span, message);
    }
}

/// The lists of a shim: said once, and in step.
fn shim_symbols(index: usize, shim: &Shim, context: &mut Context) {
    let key = format!("shim[{index}]");
    once(&format!("{key}.stub"), shim.stub.iter().map(|stub| &stub.name), context);
    let Symbols::Listed(symbols) = &shim.symbols.value else { return };
    let list = format!("{key}.symbols");
    once(&list, symbols, context);
    if !context.sound(&list) {
        return;
    }
    if symbols.is_empty() {
        report(context, &list, "E-MAN-012", &shim.symbols.span, "no symbol is given".to_owned());
    }
    for (at, stub) in shim.stub.iter().enumerate() {
        if !symbols.iter().any(|symbol| symbol.value == stub.name.value) {
            let nearest = nearest(&stub.name, symbols.iter().map(|symbol| symbol.as_str()));
            let message = format!("`{}` is not among the shim's symbols", stub.name);
            let complaint = Complaint { message, nearest };
            context.report_at(format!("{key}.stub[{at}]"), "E-MAN-039", stub.name.span.clone(), complaint);
        }
    }
}

/// A shim is for a bundle, a core gap is where the stock core stays, and either is opened.
fn shim_use(index: usize, shim: &Shim, manifest: &Manifest, context: &mut Context) {
    let key = format!("shim[{index}]");
    if !context.sound(&key) || !context.sound("torch.swap") {
        return;
    }
    let swap = *manifest.torch.swap;
    let what = match *shim.kind {
        _ if swap == Swap::None => "nothing is bundled, and a shim is part of a bundle",
        ShimKind::CoreGap if swap == Swap::Core => "the core is the vendor's, and has no gap",
        _ => "",
    };
    if !what.is_empty() {
        let message = format!("swap is `{swap}`: {what}");
        report(context, &format!("{key}.kind"), "E-MAN-037", &shim.kind.span, message);
    }
    if let Some(bundle) = &manifest.bundle
        && context.sound("bundle.preload")
        && !bundle.preload.iter().any(|opened| opened.value == shim.soname.value)
    {
        let message = format!("`{}` is a shim, and preload does not open it", shim.soname);
        report(context, &format!("{key}.soname"), "E-MAN-035", &shim.soname.span, message);
    }
}

fn provided(manifest: &Manifest, context: &mut Context) {
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    let mut places = std::collections::BTreeSet::new();
    for (index, provided) in manifest.provided.iter().enumerate() {
        let key = format!("provided[{index}].libraries");
        if provided.libraries.is_empty() && context.sound(&key) {
            let message = format!("`{}` provides no libraries", provided.dist);
            report(context, &key, "E-MAN-051", &provided.libraries.span, message);
        }
        let place = (provided.dist.as_str(), provided.dir.as_ref().map(|dir| dir.as_str()));
        if !places.insert(place) {
            let message = format!("`{}` is provided twice with the same dir: join the two", provided.dist);
            report(context, &format!("provided[{index}]"), "E-MAN-030", &provided.dist.span, message);
        }
        for library in provided.libraries.iter() {
            if let Some(owner) = owners.insert(library, &provided.dist) {
                let message = format!("`{library}` is provided twice; the other one is of `{owner}`");
                report(context, &key, "E-MAN-030", &library.span, message);
            }
        }
    }
}
