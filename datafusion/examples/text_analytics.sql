-- 22 questions of text analytics, for any engine with a table words (file, position, word): a corpus called words, or the same
-- rows in a table. Table shelves (file, shelf) says on which shelf a file stands. Orders are total, so answers are the same.

-- 1. Most frequent words.
SELECT word, COUNT(*) AS n FROM words GROUP BY word ORDER BY n DESC, word LIMIT 20;
-- 2. Size of the vocabulary.
SELECT COUNT(DISTINCT word) AS vocabulary FROM words;
-- 3. Longest files.
SELECT file, COUNT(*) AS n FROM words GROUP BY file ORDER BY n DESC, file LIMIT 10;
-- 4. How many words occur once.
SELECT COUNT(*) AS once FROM (SELECT word FROM words GROUP BY word HAVING COUNT(*) = 1) AS rare;
-- 5. Words by the number of files that have them.
SELECT word, COUNT(DISTINCT file) AS files FROM words GROUP BY word ORDER BY files DESC, word LIMIT 20;
-- 6. Distinct words for each word, by file.
SELECT file, CAST(COUNT(DISTINCT word) AS DOUBLE) / COUNT(*) AS richness FROM words GROUP BY file ORDER BY richness DESC, file LIMIT 10;
-- 7. Most frequent pairs of words that follow one another.
SELECT a.word AS one, b.word AS two, COUNT(*) AS n FROM words AS a JOIN words AS b ON a.file = b.file AND b.position = a.position + 1
GROUP BY a.word, b.word ORDER BY n DESC, one, two LIMIT 20;
-- 8. What follows one word.
SELECT b.word, COUNT(*) AS n FROM words AS a JOIN words AS b ON a.file = b.file AND b.position = a.position + 1
WHERE a.word = 'the' GROUP BY b.word ORDER BY n DESC, b.word LIMIT 20;
-- 9. Files with both of two words.
SELECT file FROM words WHERE word = 'the' INTERSECT SELECT file FROM words WHERE word = 'and' ORDER BY file;
-- 10. Files with one word and without another.
SELECT file FROM words WHERE word = 'that' EXCEPT SELECT file FROM words WHERE word = 'mouse' ORDER BY file;
-- 11. The three most frequent words of each file.
SELECT file, word, n FROM (SELECT file, word, n, ROW_NUMBER() OVER (PARTITION BY file ORDER BY n DESC, word) AS place
FROM (SELECT file, word, COUNT(*) AS n FROM words GROUP BY file, word) AS counts) AS places WHERE place <= 3 ORDER BY file, n DESC, word;
-- 12. The longest stretch without a word, by file.
SELECT file, MAX(gap) AS longest FROM (SELECT file, position - LAG(position) OVER (PARTITION BY file ORDER BY position) AS gap
FROM words WHERE word = 'the') AS gaps GROUP BY file ORDER BY file;
-- 13. Words that come last in their file for the first time.
SELECT file, word, MIN(position) AS first_position FROM words GROUP BY file, word ORDER BY first_position DESC, file, word LIMIT 20;
-- 14. How much of the text its most frequent words are.
SELECT word, n, SUM(n) OVER (ORDER BY n DESC, word ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS covered
FROM (SELECT word, COUNT(*) AS n FROM words GROUP BY word) AS counts ORDER BY n DESC, word LIMIT 20;
-- 15. Words by their length.
SELECT CAST(LENGTH(word) AS BIGINT) AS characters, COUNT(*) AS n FROM words GROUP BY LENGTH(word) ORDER BY characters;
-- 16. Words that are also written with a capital letter.
SELECT a.word, COUNT(*) AS n FROM words AS a JOIN (SELECT DISTINCT LOWER(word) AS word FROM words WHERE word <> LOWER(word)) AS b
ON a.word = b.word GROUP BY a.word ORDER BY n DESC, a.word LIMIT 20;
-- 17. Words by shelf.
SELECT shelf, COUNT(*) AS n FROM words JOIN shelves ON words.file = shelves.file GROUP BY shelf ORDER BY shelf;
-- 18. Words that only one shelf has.
SELECT word, MIN(shelf) AS shelf, COUNT(*) AS n FROM words JOIN shelves ON words.file = shelves.file
GROUP BY word HAVING COUNT(DISTINCT shelf) = 1 ORDER BY n DESC, word LIMIT 20;
-- 19. Words that are frequent in a file and in few others.
SELECT counts.file, counts.word, CAST(counts.n AS DOUBLE) / spread.files AS weight
FROM (SELECT file, word, COUNT(*) AS n FROM words GROUP BY file, word) AS counts
JOIN (SELECT word, COUNT(DISTINCT file) AS files FROM words GROUP BY word) AS spread ON counts.word = spread.word
ORDER BY weight DESC, counts.file, counts.word LIMIT 20;
-- 20. Pairs of files with most words in common.
SELECT a.file AS one, b.file AS two, COUNT(*) AS shared FROM (SELECT DISTINCT file, word FROM words) AS a
JOIN (SELECT DISTINCT file, word FROM words) AS b ON a.word = b.word AND a.file < b.file GROUP BY a.file, b.file
ORDER BY shared DESC, one, two LIMIT 20;
-- 21. Occurrences of the most frequent words, by file.
SELECT file, COUNT(*) AS n FROM words WHERE word IN (SELECT word FROM words GROUP BY word ORDER BY COUNT(*) DESC, word LIMIT 5)
GROUP BY file ORDER BY file;
-- 22. Where in files a word stands, by tens of words.
SELECT position - position % 10 AS tens, COUNT(*) AS n FROM words WHERE word = 'cat' GROUP BY position - position % 10 ORDER BY tens;
