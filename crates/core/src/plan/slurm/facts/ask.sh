LC_ALL=C TZ=UTC0
export LC_ALL TZ
unset SINFO_FORMAT SINFO_SORT SINFO_PARTITION SINFO_STATE SACCT_FORMAT SLURM_TIME_FORMAT
command -v timeout >/dev/null 2>&1 || timeout() { shift; "$@"; }
ask() {
  name=$1
  shift
  printf '\n@yard-probe %s\n' "$name"
  timeout 20 "$@" </dev/null 2>&1
  printf '\n@yard-answer %s %s\n' "$name" "$?"
}
version_of() {
  if command -v "$1" >/dev/null 2>&1; then ask "$1" "$1" "$2"; else printf '\n@yard-none %s\n' "$1"; fi
}
