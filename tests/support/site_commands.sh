# shellcheck shell=bash
# site_commands FOLDER ANSWERS: puts there sinfo and scontrol that say what a site of tests/app/sites says, and a squeue of one node's job.
site_commands() {
  mkdir -p "$1"
  cat >"$1/scontrol" <<S
#!/bin/bash
case "\$*" in *hostnames*) echo n1 ;; *config*) cat "$2/config.txt" ;; *node*) cat "$2/nodes.txt" ;; *partition*) cat "$2/partitions.txt" ;; *) exit 1 ;; esac
S
  printf '#!/bin/bash\ncat "%s/sinfo.txt"\n' "$2" >"$1/sinfo"
  printf '#!/bin/bash\ncase "$*" in *%%N*) echo n1 ;; *%%L*) echo 1:00:00 ;; esac\n' >"$1/squeue"
  chmod +x "$1"/*
}
