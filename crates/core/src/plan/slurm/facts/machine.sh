for line do eval "$line" </dev/null >/dev/null 2>&1; done
version_of apptainer --version
version_of singularity --version
version_of podman --version
version_of docker --version
printf '\n@yard-end\n'
