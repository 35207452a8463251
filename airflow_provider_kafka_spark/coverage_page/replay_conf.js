// The configuration of a replay's DAG run.

import { formatRange } from "./offsets.js";

/** The param of a DAG that takes ranges, or null. A run's form calls it offset_ranges or ranges. */
export function rangesParam(params) {
  for (const name of ["offset_ranges", "ranges"]) {
    const type = params?.[name]?.schema?.type;
    const types = Array.isArray(type) ? type : [type];
    if (params?.[name] === undefined) continue;
    if (name === "offset_ranges" || types.includes("array")) return { name, isList: !types.includes("string") };
  }
  return null;
}

/** The configuration of a run: the DAG's own defaults, with the ranges and what else is known filled in. */
export function runConf(params, pair, list, isPlanOnly) {
  const conf = Object.fromEntries(Object.entries(params).map(([name, param]) => [name, param?.value ?? null]));
  const { name, isList } = rangesParam(params);
  const texts = list.map(formatRange);
  conf[name] = isList ? texts : JSON.stringify(texts);
  if ("topic" in conf) conf.topic = pair.topic;
  if ("target_topic" in conf && pair.target.topic) conf.target_topic = pair.target.topic;
  if ("plan_only" in conf) conf.plan_only = isPlanOnly;
  return conf;
}
