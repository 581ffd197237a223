import"./c.MCQZRRMT.js";import"./c.3K4JPN75.js";import"./c.SJLQEVXC.js";import"./c.6DFT5GEM.js";import"./c.M5FQ55NN.js";import"./c.JX476QQJ.js";
