-- Lmod modulefile of Flotilla. Installed as PREFIX/share/flotilla/modules/flotilla.lua, it finds PREFIX by its own place:
--
--   module use PREFIX/share/flotilla/modules
--   module load flotilla
--
-- Copied elsewhere (flotilla/VERSION.lua of the site's own tree), set `prefix` below.
local prefix = nil

local file = myFileName()
if prefix == nil then
  prefix = file:match("^(.*)/share/flotilla/modules/[^/]*$")
end
if prefix == nil then
  LmodError("flotilla: " .. file .. " does not stand below PREFIX/share/flotilla/modules; set prefix in it")
end

help([[
Flotilla plans and trains transformers on whatever mix of accelerators a Slurm site can give.
  man flotilla           every command and option
  flotilla doctor        whether this machine and job can work
  flotilla submit JOB    plan over what is free, write the batch script, send it
Job scripts and the shell library that they share: $FLOTILLA_SHARE/slurm
]])
whatis("Name: Flotilla")
whatis("Description: plans and trains transformers on mixed accelerators")

family("flotilla")
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
-- Unset, it means these two: what is set replaces them.
if os.getenv("XDG_DATA_DIRS") == nil then append_path("XDG_DATA_DIRS", "/usr/local/share:/usr/share") end
prepend_path("XDG_DATA_DIRS", pathJoin(prefix, "share"))
setenv("FLOTILLA_SHARE", pathJoin(prefix, "share/flotilla"))
-- An empty entry behind it keeps the system's own pages.
append_path("MANPATH", "", ":")

-- bash-completion finds the script by XDG_DATA_DIRS; without it, it is sourced by hand.
-- Device types of the site's own (docs/formats/catalogue.md).
local catalogue = pathJoin(prefix, "share/flotilla/catalogue.json")
if isFile(catalogue) then
  setenv("FLOTILLA_PLAN_CATALOGUE", catalogue)
  setenv("FLOTILLA_SIMULATE_CATALOGUE", catalogue)
end
