#!/usr/bin/env bash
# Where the time of CUDA kernels goes, by Nsight Compute: `gpu-profile.sh CORPUS [OUTPUT]`, in a folder of gpu-bundle.sh. One pass of
# construction, tasks and look-ups; of each kernel only some launches are looked at. Writes OUTPUT.csv and OUTPUT.md, by default
# profile.csv and profile.md. Clocks are left as they are. SECONDS_MAX=200 and LAUNCHES='1|2|3' may be set.
set -euo pipefail

if [ $# -lt 1 ]; then
    sed -n 's/^# //p' "$0" >&2
    exit 2
fi
corpus=$1
output=${2:-profile}
here=$(dirname "$0")
bench=${BENCH:-$here/zipfdb-bench}
launches=${LAUNCHES:-'1|2|3|6|12|20'}

ncu=$(command -v ncu || find /usr/local/cuda*/ /opt/nvidia -name ncu -type f 2> /dev/null | sort | tail -n 1)
library=$(find /usr/local/cuda*/ /usr/lib /opt -name 'libnvrtc.so*' 2> /dev/null | head -n 1 || true)
[ -z "$library" ] || export LD_LIBRARY_PATH=$(dirname "$library"):${LD_LIBRARY_PATH:-}

wanted=(
    gpu__time_duration.sum
    dram__bytes.sum
    lts__t_bytes.sum
    lts__t_sectors.sum
    lts__t_sectors_op_atom.sum
    lts__t_sectors_op_red.sum
    sm__throughput.avg.pct_of_peak_sustained_elapsed
    lts__throughput.avg.pct_of_peak_sustained_elapsed
    dram__throughput.avg.pct_of_peak_sustained_elapsed
    sm__warps_active.avg.pct_of_peak_sustained_active
)
# What this device does not have would end the run.
known=$("$ncu" --query-metrics 2> /dev/null | awk '{ print $1 }' || true)
metrics=
for metric in "${wanted[@]}"; do
    if [ -z "$known" ] || grep -qx "${metric%%.*}" <<< "$known"; then
        metrics=$metrics${metrics:+,}$metric
    fi
done

# Warps' stalls, registers and grids come with sections, which name what the device has.
run() {
    timeout --signal INT --kill-after 20 "${SECONDS_MAX:-200}" "$ncu" --clock-control none --target-processes all \
        --print-units base --kernel-id ":::^($launches)\$" --metrics "$metrics" "$@" --log-file "$output.ncu.log" --csv --page raw \
        "$bench" gpu --parts kernels --once --corpus "$corpus" > "$output.out" || true
}
# The log has the table; what the program prints goes elsewhere.
run --section WarpStateStats --section LaunchStats --section Occupancy
if ! grep -q '^"ID"' "$output.ncu.log"; then
    echo "without sections: $(grep -m 1 -i error "$output.ncu.log" || true)" >&2
    run
fi
sed -n '/^"ID"/,$p' "$output.ncu.log" | grep -v '^==' > "$output.csv"
python3 "$here/gpu_profile.py" "$output.csv" | tee "$output.md"
