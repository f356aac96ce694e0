//! The message in protobuf's JSON, with its names in either spelling.

use serde_json::{Map, Value};

use super::{OrcaError, OrcaReport};

pub(super) fn parse(payload: &[u8]) -> Result<(OrcaReport, u32), OrcaError> {
    let object: Map<String, Value> = serde_json::from_slice(payload)
        .map_err(|e| OrcaError::Text { format: "JSON", why: e.to_string() })?;
    let mut report = OrcaReport::default();
    let mut skipped = 0;
    for (key, value) in &object {
        let field = match key.as_str() {
            "cpuUtilization" => "cpu_utilization",
            "memUtilization" => "mem_utilization",
            "applicationUtilization" => "application_utilization",
            "rpsFractional" => "rps_fractional",
            "namedMetrics" => "named_metrics",
            "requestCost" => "request_cost",
            other => other,
        };
        match value {
            // Both mean the default.
            Value::Null => {}
            Value::Object(map) => {
                for (name, value) in map {
                    let used = number(value).is_some_and(|v| report.add(&format!("{field}.{name}"), v));
                    skipped += u32::from(!used);
                }
            }
            _ => skipped += u32::from(!number(value).is_some_and(|v| report.add(field, v))),
        }
    }
    Ok((report, skipped))
}

/// Protobuf's JSON may write any number as a string.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}
