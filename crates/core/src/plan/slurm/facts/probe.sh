ask version sinfo --version
ask user id -un
ask partitions sinfo -h -a -e -o '%P|%a|%l|%L|%D|%t|%c|%m|%G|%f'
ask settings scontrol show config
ask associations sacctmgr -n -P show assoc "user=$(id -un)" format=Account,Partition,QOS,DefaultQOS,MaxSubmitJobs
ask accounting sacct -n -X -P -S now -o JobID
version_of apptainer --version
version_of singularity --version
version_of enroot version
ask pyxis srun --help
printf '\n@yard-end\n'
