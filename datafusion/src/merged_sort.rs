//! The optimizer rule: partitions that are sorted for their first rows, which are then merged, are sorted by all keys of the merge.
//!
//! DataFusion (55) sorts a partition by fewer keys: it leaves out those that are the same in all of its rows, such as the constant of
//! a branch of UNION ALL. All partitions share one bound, the last key that one of them still needs, and each skips rows that are
//! not below it. A row that equals the bound in the keys that are left, and is smaller by one that was left out, is lost then.
//! Whether that happens depends on which partition is faster.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

/// The rule.
#[derive(Debug)]
pub(crate) struct MergedSortKeys;

impl PhysicalOptimizerRule for MergedSortKeys {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let sort = sort_by_all_keys(&plan);
            match sort {
                Some(sort) => Ok(Transformed::yes(replace_children_if_necessary(
                    plan,
                    vec![sort],
                )?)),
                None => Ok(Transformed::no(plan)),
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        "zipfdb_merged_sort_keys"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The sort below a merge, if it has other keys.
fn sort_by_all_keys(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let merge = plan.downcast_ref::<SortPreservingMergeExec>()?;
    let sort = merge.input().downcast_ref::<SortExec>()?;
    if sort.fetch().is_none() || sort.expr() == merge.expr() {
        return None;
    }
    let whole = SortExec::new(merge.expr().clone(), sort.input().clone())
        .with_preserve_partitioning(sort.preserve_partitioning())
        .with_fetch(sort.fetch());
    Some(Arc::new(whole))
}
