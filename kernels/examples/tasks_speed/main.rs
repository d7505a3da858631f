//! stats
mod corpus;
use std::collections::HashMap;
use std::time::Instant;
fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let t = Instant::now();
        let c = corpus::Corpus::read(&path)?;
        let v = c.grammar.view();
        let sum: usize = c.words.iter().map(|&w| w as usize).sum();
        println!(
            "{path}: {:.1}s words {} V {} files {} | wg rules {} bodies {} root {} levels {} bytes {} (words bytes {}) {sum}",
            t.elapsed().as_secs_f64(),
            c.words.len(),
            c.word_count,
            v.files(),
            v.rules(),
            v.symbols.len(),
            v.root.len(),
            v.levels(),
            c.grammar.bytes(),
            4 * c.words.len()
        );
        // dups
        let mut map: HashMap<Vec<u32>, u32> = HashMap::new();
        let mut rep: Vec<u32> = (0..v.symbol_count() as u32).collect();
        let mut dup_syms = 0;
        for r in 0..v.rules() as u32 {
            let b: Vec<u32> = v.body(r).iter().map(|&s| rep[s as usize]).collect();
            let l = b.len();
            let me = v.terminal_count + r;
            let e = *map.entry(b).or_insert(me);
            if e != me {
                dup_syms += l;
            }
            rep[me as usize] = e;
        }
        println!("  dup rules {} symbols {}", v.rules() - map.len(), dup_syms);
        // lens, windows
        let mut len = vec![1u64; v.symbol_count()];
        for r in 0..v.rules() as u32 {
            len[(v.terminal_count + r) as usize] = v.body(r).iter().map(|&s| len[s as usize]).sum();
        }
        let mut uses = c.grammar.root_counts().to_vec();
        for &s in v.symbols {
            uses[s as usize] += 1;
        }
        println!(
            "  symbols used once: {}",
            uses.iter().filter(|&&u| u == 1).count()
        );
        for n in [2u64, 3, 5, 8] {
            let win = |b: &[u32]| -> u64 {
                let l: u64 = b.iter().map(|&s| len[s as usize]).sum();
                (l + 1).saturating_sub(n)
                    - b.iter()
                        .map(|&s| (len[s as usize] + 1).saturating_sub(n))
                        .sum::<u64>()
            };
            let mut rw = 0;
            for r in 0..v.rules() as u32 {
                rw += win(v.body(r));
            }
            let mut ro = 0;
            for f in 0..v.files() as u32 {
                ro += win(v.file_root(f));
            }
            println!(
                "  n {n}: rule windows {rw} root windows {ro} = {:.1}%",
                100.0 * (rw + ro) as f64 / c.words.len() as f64
            );
        }
        // (file, rule) pairs, touches
        if v.files() > 1 {
            let mut stamp = vec![u32::MAX; v.symbol_count()];
            let (mut pairs, mut touches, mut words) = (0u64, 0u64, 0u64);
            for f in 0..v.files() as u32 {
                let mut stack: Vec<u32> = v.file_root(f).to_vec();
                touches += stack.len() as u64;
                while let Some(s) = stack.pop() {
                    if stamp[s as usize] == f {
                        continue;
                    }
                    stamp[s as usize] = f;
                    match v.rule(s) {
                        None => words += 1,
                        Some(r) => {
                            pairs += 1;
                            touches += v.body(r).len() as u64;
                            stack.extend(v.body(r));
                        }
                    }
                }
            }
            println!("  (file, rule) {pairs} touches {touches} (file, word) {words}");
        }
    }
    Ok(())
}
