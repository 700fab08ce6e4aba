//! Binding symbols: the order of relocation and the search in scopes (glibc `elf/dl-reloc.c`, `elf/dl-lookup.c`).

use torchfl_elf::{Bind, Use};

use crate::failure::Failure;
use crate::object::Known;
use crate::process::{Binding, MapId, Process, Scope};
use crate::symbols::{Reference, Wanted};

const HIDDEN: [u8; 2] = [1, 2];
const PROTECTED: u8 = 3;

impl Process<'_> {
    /// The libraries of `list` with dependents before what they depend on, as far as there are no cycles; the first
    /// stays first (`_dl_sort_maps_dfs`; 2.36 as released moves it in cycles, its stable branch and 2.39 do not).
    pub(crate) fn sorted(&self, list: &[MapId]) -> Vec<MapId> {
        let mut visited = vec![false; self.maps.len()];
        let mut order = Vec::with_capacity(list.len());
        for start in list.iter().rev() {
            self.visit(*start, &mut visited, &mut order);
        }
        order.reverse();
        if let Some(at) = list.first().and_then(|first| order.iter().position(|one| one == first)) {
            order[..=at].rotate_right(1);
        }
        order
    }

    /// Depth first, without recursion: dependency chains may be long.
    fn visit(&self, start: MapId, visited: &mut [bool], order: &mut Vec<MapId>) {
        if std::mem::replace(&mut visited[start.0], true) {
            return;
        }
        let mut stack = vec![(start, 0)];
        while let Some((map, next)) = stack.last_mut() {
            let inner = self.maps[map.0].order.as_deref().unwrap_or_default();
            let Some(dependency) = inner.get(*next).copied() else {
                order.push(*map);
                stack.pop();
                continue;
            };
            *next += 1;
            if !(visited[dependency.0] || self.program && dependency.0 == 0) {
                visited[dependency.0] = true;
                stack.push((dependency, 0));
            }
        }
    }

    /// Relocates what came with `new` and is not yet, dependencies first.
    pub(crate) fn relocate_list(&mut self, new: MapId, lazy: bool) -> Result<(), Failure> {
        let lazy = lazy && !self.settings.bind_now;
        for map in self.maps[new.0].order.clone().unwrap_or_default().into_iter().rev() {
            if !std::mem::replace(&mut self.maps[map.0].relocated, true) && !self.settings.map_only {
                self.relocate(map, lazy)?;
            }
        }
        Ok(())
    }

    fn relocate(&mut self, map: MapId, lazy: bool) -> Result<(), Failure> {
        let object = self.maps[map.0].object.clone();
        let lazy = lazy && !object.flags.now;
        if object.flags.static_tls || object.flags.tls_descriptors {
            self.place_tls(map, !object.flags.static_tls)?;
        }
        let scope = self.scope(map);
        let incomplete = scope.iter().any(|one| self.maps[one.0].needed.iter().any(Option::is_none));
        for reference in object.symbols.references() {
            let waits = reference.lazy && lazy;
            // What waits for the first call is looked at only to tell of it.
            if waits && !self.settings.keep_going {
                continue;
            }
            let to = match object.symbols.wanted(reference.symbol) {
                // Hidden: the file's own.
                None => Some(map),
                Some(wanted) => match self.bind(map, *reference, &wanted, &scope, waits) {
                    Ok(binding) => {
                        self.bindings.push(binding);
                        binding.to
                    }
                    // What a missing library may define is not told of as well.
                    Err(Failure::Undefined { .. }) if incomplete && self.settings.keep_going => None,
                    Err(failure) => {
                        self.fail(failure)?;
                        None
                    }
                },
            };
            if (reference.tls_static || reference.tls_descriptor)
                && let Some(to) = to
            {
                self.place_tls(to, reference.tls_descriptor)?;
            }
        }
        Ok(())
    }

    /// The libraries that `map` looks into, in order.
    pub fn scope(&self, map: MapId) -> Vec<MapId> {
        let mut scope: Vec<MapId> = Vec::new();
        let mut seen = vec![false; self.maps.len()];
        for part in &self.maps[map.0].scope {
            let list: &[MapId] = match part {
                Scope::Global => &self.global,
                Scope::List(of) => self.maps[of.0].searchlist.as_deref().unwrap_or_default(),
                Scope::Own(one) => &[*one],
            };
            for one in list {
                if !std::mem::replace(&mut seen[one.0], true) {
                    scope.push(*one);
                }
            }
        }
        scope
    }

    fn bind(
        &mut self,
        map: MapId,
        reference: Reference,
        wanted: &Wanted<'_>,
        scope: &[MapId],
        waits: bool,
    ) -> Result<Binding, Failure> {
        let Reference { symbol, how, .. } = reference;
        let object = self.maps[map.0].object.clone();
        let bound = |to, definition| Ok(Binding { from: map, symbol, to, definition });
        if let Some((found, definition)) = self.look_up(map, symbol, wanted, how, scope)? {
            let protected = object.symbols.facts(symbol).is_some_and(|facts| facts.2 == PROTECTED);
            // A protected symbol is its own definition, whatever goes before it.
            if protected && !object.symbols.is_undefined(symbol) && found != map {
                return bound(Some(map), Some(symbol));
            }
            return bound(Some(found), Some(definition));
        }
        if let Some(given) = self.given(symbol, map, scope) {
            return bound(Some(given), None);
        }
        if object.symbols.is_weak(symbol) {
            return bound(None, None);
        }
        let version = object.symbols.version(symbol);
        Err(Failure::Undefined {
            symbol: object.symbols.text(symbol),
            version: version.map(|(name, _)| name.to_owned()),
            file: version.and_then(|(_, file)| file.map(str::to_owned)),
            by: self.display(map),
            lazy: waits,
        })
    }

    /// `_dl_lookup_symbol_x`.
    fn look_up(
        &mut self,
        map: MapId,
        symbol: u32,
        wanted: &Wanted<'_>,
        how: Use,
        scope: &[MapId],
    ) -> Result<Option<(MapId, u32)>, Failure> {
        for one in scope {
            if how == Use::Copy && self.program && one.0 == 0 {
                continue;
            }
            let there = &self.maps[one.0];
            let Some(found) = there.object.symbols.find(wanted, how == Use::Plt) else { continue };
            if let Some((version, Some(file))) = self.maps[map.0].object.symbols.version(symbol)
                && !there.object.symbols.is_versioned()
                && there.answers(file)
            {
                return Err(Failure::Unversioned {
                    symbol: String::from_utf8_lossy(wanted.name).into_owned(),
                    version: version.to_owned(),
                    file: self.display(*one),
                    by: self.display(map),
                });
            }
            let Some((bind, _, visibility, _)) = there.object.symbols.facts(found) else { continue };
            if HIDDEN.contains(&visibility) {
                continue;
            }
            match bind {
                Bind::Global | Bind::Weak => return Ok(Some((*one, found))),
                Bind::Unique => {
                    // One in the process: the first that anybody bound to.
                    let entry = self.unique.entry(wanted.name.to_vec());
                    let first = *entry.or_insert((if how == Use::Copy { map } else { *one }, found));
                    return Ok(Some(if how == Use::Copy { (*one, found) } else { first }));
                }
                Bind::Local | Bind::Other => {}
            }
        }
        Ok(None)
    }

    /// A library that nobody has looked at and that is taken to define the symbol.
    fn given(&self, symbol: u32, map: MapId, scope: &[MapId]) -> Option<MapId> {
        let symbols = &self.maps[map.0].object.symbols;
        let version = symbols.version(symbol);
        let mut name = None;
        scope.iter().copied().find(|one| {
            let there = &self.maps[one.0];
            let Known::Given(cover) = &there.object.known else { return false };
            // A version is asked of one file.
            if version.is_some_and(|(_, file)| file.is_some_and(|file| !there.answers(file))) {
                return false;
            }
            let name = name.get_or_insert_with(|| symbols.text(symbol));
            cover.covers(name, version.map(|(version, _)| version))
        })
    }

    /// Room in the static TLS block for `owner`; `optional` where it can do without.
    fn place_tls(&mut self, owner: MapId, optional: bool) -> Result<(), Failure> {
        let map = &mut self.maps[owner.0];
        let image = map.object.tls;
        if map.tls_placed || image.0 == 0 {
            return Ok(());
        }
        let left = self.tls.left();
        map.tls_placed = self.tls.place(image, optional);
        if map.tls_placed || optional {
            return Ok(());
        }
        self.fail(Failure::StaticTls { by: self.display(owner), bytes: image.0, left })
    }
}
